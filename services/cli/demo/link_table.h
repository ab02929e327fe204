// The same request moved in every mode over a slow link: what each one costs, and what it does to the output.
#ifndef RISKKV_SERVICES_CLI_DEMO_LINK_TABLE_H_
#define RISKKV_SERVICES_CLI_DEMO_LINK_TABLE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/cli/demo/scenario.h"
#include "services/cli/proto_json.h"

namespace riskkv::cli {

// The index of the first token that differs; -1 when none does.
int64_t FirstDifference(const std::vector<int32_t>& a, const std::vector<int32_t>& b);

struct LinkRow {
  MoveSpec spec;
  MoveReport report;
  int64_t equal_until = -1;  // output tokens equal to the unmoved request's; -1: all of them
};

struct LinkComparison {
  int mbit = 0;  // of the link
  std::vector<int32_t> unmoved;
  std::vector<LinkRow> rows;
  std::string coded_left_out;  // why there is no CODED row; "" when there is one
};

// Moves the request of each of `specs` in turn, one after the other, and compares with `unmoved`.
absl::Status RunComparison(Cluster& cluster, const std::vector<MoveSpec>& specs, Narrator& narrator,
                           const Clock& clock, LinkComparison& comparison);

Json ToJson(const LinkComparison& comparison);
std::string LinkTableText(const LinkComparison& comparison);

}  // namespace riskkv::cli

#endif  // RISKKV_SERVICES_CLI_DEMO_LINK_TABLE_H_
