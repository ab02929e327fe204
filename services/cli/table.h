// Plain aligned tables and readable numbers.
#ifndef RISKKV_SERVICES_CLI_TABLE_H_
#define RISKKV_SERVICES_CLI_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace riskkv::cli {

class Table {
 public:
  // Headers that start with '>' are aligned to the right.
  explicit Table(std::vector<std::string> headers);
  void Add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  // Two blanks between columns, none at the end of a line.
  std::string ToString() const;

 private:
  std::vector<bool> right_;
  std::vector<std::string> headers_;
  std::vector<std::vector<std::string>> rows_;
};

// "name  value" lines, aligned.
std::string KeyValues(const std::vector<std::pair<std::string, std::string>>& pairs,
                      const std::string& indent = "");

std::string HumanBytes(int64_t bytes);           // 737 kB, 11.8 MB
std::string HumanRate(double bytes_per_second);  // 95.9 Mbit/s
std::string HumanSeconds(double seconds);        // 14 ms, 1.70 s, 3m20s
std::string HumanMs(double ms);
std::string Percent(double share);  // 0.221 -> 22.1 %
// What is shown of a long digest.
std::string ShortDigest(const std::string& digest);

}  // namespace riskkv::cli

#endif  // RISKKV_SERVICES_CLI_TABLE_H_
