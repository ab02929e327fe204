// What coordinator and workers both say of an attempt: common/migration/records.h <-> riskkv.v1.
#ifndef RISKKV_COMMON_NET_CONVERT_MOVE_H_
#define RISKKV_COMMON_NET_CONVERT_MOVE_H_

#include "common/migration/records.h"
#include "riskkv/v1/common.pb.h"
#include "riskkv/v1/worker.pb.h"

namespace riskkv {

v1::Fence ToProto(const Fence& fence);
Fence FromProto(const v1::Fence& fence);
v1::RoundDone ToProto(const RoundDone& round);
RoundDone FromProto(const v1::RoundDone& round);
v1::PausedAt ToProto(const PausedAt& paused);
PausedAt FromProto(const v1::PausedAt& paused);
v1::MoveStats ToProto(const MoveStats& stats);
MoveStats FromProto(const v1::MoveStats& stats);

}  // namespace riskkv

#endif  // RISKKV_COMMON_NET_CONVERT_MOVE_H_
