// Client channels with the arguments bulk transfer and dead-peer detection need (environment.md: keepalive is off by
// default, reconnect backoff grows to 120 s).
#ifndef RISKKV_COMMON_NET_CHANNEL_H_
#define RISKKV_COMMON_NET_CHANNEL_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"

namespace riskkv {

// kBulk never shares a connection with kControl, so that frames do not hold control messages up.
enum class ChannelKind { kControl, kBulk };

std::shared_ptr<grpc::Channel> CreateChannel(const std::string& address, ChannelKind kind);

// Sets the deadline a duration from now.
void SetTimeout(grpc::ClientContext& context, absl::Duration timeout);

inline constexpr absl::Duration kConnectTimeout = absl::Seconds(5);

}  // namespace riskkv

#endif  // RISKKV_COMMON_NET_CHANNEL_H_
