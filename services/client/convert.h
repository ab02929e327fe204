// riskkv.v1 messages of a generation -> the client's plain events.
#ifndef RISKKV_SERVICES_CLIENT_CONVERT_H_
#define RISKKV_SERVICES_CLIENT_CONVERT_H_

#include <optional>

#include "riskkv/v1/generation.pb.h"
#include "services/client/core/events.h"

namespace riskkv::client {

TokenEvent FromProto(const v1::TokenRecord& token);
v1::TokenRecord ToProto(const TokenEvent& token);
FinishReason FromProto(v1::FinishReason reason);
// Nothing for an event this version does not know.
std::optional<Event> FromProto(const v1::GenerateEvent& event);

}  // namespace riskkv::client

#endif  // RISKKV_SERVICES_CLIENT_CONVERT_H_
