#include "common/net/status.h"

#include <string>

#include "absl/strings/cord.h"
#include "fmt/format.h"
#include "google/rpc/status.pb.h"
#include "riskkv/v1/coordinator.pb.h"

namespace riskkv {
namespace {

std::string Str(absl::string_view s) { return {s.data(), s.size()}; }

template <typename Enum>
Enum ParseOr(bool (*parse)(google::protobuf::ConstStringParam, Enum*), const std::string& name, Enum fallback) {
  Enum value = fallback;
  return !name.empty() && parse(name, &value) ? value : fallback;
}

v1::Side SideOf(const std::string& side) {
  if (side == "source") return v1::SIDE_SOURCE;
  if (side == "destination") return v1::SIDE_DESTINATION;
  if (side == "coordinator") return v1::SIDE_COORDINATOR;
  if (side == "client") return v1::SIDE_CLIENT;
  return v1::SIDE_UNSPECIFIED;
}

std::string NameOf(v1::Side side) {
  switch (side) {
    case v1::SIDE_SOURCE: return "source";
    case v1::SIDE_DESTINATION: return "destination";
    case v1::SIDE_COORDINATOR: return "coordinator";
    case v1::SIDE_CLIENT: return "client";
    default: return "";
  }
}

constexpr char kLeaderUrl[] = "riskkv/leader";

constexpr char kStatePrefix[] = "MIGRATION_STATE_";

std::string StageName(v1::MigrationState state) {
  if (state == v1::MIGRATION_STATE_UNSPECIFIED) return "";
  return v1::MigrationState_Name(state).substr(sizeof(kStatePrefix) - 1);
}

// What a bare transport error means.
absl::Status WithDefaultReason(absl::Status status) {
  if (GetDetail(status)) return status;
  ErrorDetail detail;
  if (status.code() == absl::StatusCode::kUnavailable) {
    detail.reason = "PEER_UNREACHABLE";
    detail.retryable = true;
  } else if (status.code() == absl::StatusCode::kDeadlineExceeded) {
    detail.reason = "NO_PROGRESS";
    detail.retryable = true;
  } else {
    return status;
  }
  SetDetail(status, detail);
  return status;
}

}  // namespace

v1::ErrorDetail ToProto(const absl::Status& status) {
  v1::ErrorDetail out;
  if (status.ok()) return out;
  out.set_code(static_cast<int>(status.code()));
  out.set_message(Str(status.message()));
  ErrorDetail detail = GetDetail(status).value_or(ErrorDetail{});
  out.set_reason(ParseOr<v1::Reason>(v1::Reason_Parse, detail.reason, v1::REASON_UNSPECIFIED));
  out.set_side(SideOf(detail.side));
  out.set_stage(ParseOr<v1::MigrationState>(v1::MigrationState_Parse, detail.stage.empty() ? "" : kStatePrefix + detail.stage,
                                            v1::MIGRATION_STATE_UNSPECIFIED));
  out.set_retryable(detail.retryable);
  out.set_source_still_serving(detail.source_still_serving);
  out.set_in_doubt(detail.in_doubt);
  return out;
}

absl::Status FromProto(const v1::ErrorDetail& detail) {
  if (detail.code() == 0) return absl::OkStatus();
  absl::Status status(static_cast<absl::StatusCode>(detail.code()), detail.message());
  ErrorDetail d;
  if (detail.reason() != v1::REASON_UNSPECIFIED) d.reason = v1::Reason_Name(detail.reason());
  d.side = NameOf(detail.side());
  d.stage = StageName(detail.stage());
  d.retryable = detail.retryable();
  d.source_still_serving = detail.source_still_serving();
  d.in_doubt = detail.in_doubt();
  SetDetail(status, d);
  return status;
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  google::rpc::Status rpc;
  rpc.set_code(static_cast<int>(status.code()));
  rpc.set_message(Str(status.message()));
  if (GetDetail(status)) rpc.add_details()->PackFrom(ToProto(status));
  if (std::string leader = LeaderAddress(status); !leader.empty()) {
    v1::NotLeader detail;
    detail.set_leader_address(leader);
    rpc.add_details()->PackFrom(detail);
  }
  return {static_cast<grpc::StatusCode>(status.code()), Str(status.message()), rpc.SerializeAsString()};
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  google::rpc::Status rpc;
  absl::Status result;
  std::string leader;
  if (!status.error_details().empty() && rpc.ParseFromString(status.error_details())) {
    for (const auto& any : rpc.details()) {
      v1::ErrorDetail detail;
      v1::NotLeader not_leader;
      if (any.UnpackTo(&not_leader)) leader = not_leader.leader_address();
      if (!any.UnpackTo(&detail)) continue;
      detail.set_code(status.error_code());
      detail.set_message(status.error_message());
      result = FromProto(detail);
    }
  }
  if (result.ok()) {
    return WithDefaultReason(absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message()));
  }
  if (!leader.empty()) result.SetPayload(kLeaderUrl, absl::Cord(leader));
  return result;
}

absl::Status NotLeader(const std::string& leader_address) {
  absl::Status status = MakeError(absl::StatusCode::kUnavailable, "NOT_LEADER",
                                  leader_address.empty() ? std::string("this coordinator does not lead, and nobody else is known to")
                                                         : fmt::format("this coordinator does not lead: ask {}", leader_address));
  if (!leader_address.empty()) status.SetPayload(kLeaderUrl, absl::Cord(leader_address));
  return status;
}

std::string LeaderAddress(const absl::Status& status) {
  auto payload = status.GetPayload(kLeaderUrl);
  return payload ? std::string(*payload) : std::string();
}

absl::Status FromGrpc(const grpc::Status& status, std::string_view what) { return Annotate(FromGrpc(status), what); }

}  // namespace riskkv
