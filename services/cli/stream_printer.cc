#include "services/cli/stream_printer.h"

#include "fmt/format.h"

namespace riskkv::cli {
namespace {

Json TokenJson(const client::TokenEvent& t) {
  Json j = {{"index", t.index},
            {"token", t.token},
            {"text", Utf8OrReplaced(t.text)},
            {"logprob", t.logprob},
            {"epoch", t.epoch}};
  if (t.top.empty()) return j;
  j["top"] = Json::array();
  for (const client::Alternative& a : t.top) {
    j["top"].push_back({{"token", a.token}, {"text", Utf8OrReplaced(a.text)}, {"logprob", a.logprob}});
  }
  return j;
}

}  // namespace

std::string ShortName(client::FinishReason reason) {
  switch (reason) {
    case client::FinishReason::kStop:
      return "STOP";
    case client::FinishReason::kLength:
      return "LENGTH";
    case client::FinishReason::kCancelled:
      return "CANCELLED";
    case client::FinishReason::kError:
      return "ERROR";
    case client::FinishReason::kUnspecified:
      return "UNSPECIFIED";
  }
  return "";
}

void StreamPrinter::Print(const client::StreamItem& item) {
  if (const auto* token = std::get_if<client::TokenEvent>(&item)) {
    tokens_.push_back(*token);
    Text(token->text);
  } else if (const auto* started = std::get_if<client::StartedEvent>(&item)) {
    prompt_tokens_ = started->prompt_tokens;
    if (tokens_.empty()) Note(fmt::format("request {} on {}", started->request_id, started->worker_id));
  } else if (const auto* moving = std::get_if<client::MovingEvent>(&item)) {
    Note(fmt::format("paused to move to {} ({})", moving->worker_id, moving->address));
  } else if (const auto* moved = std::get_if<client::MovedEvent>(&item)) {
    Note(fmt::format("moved to {} ({}), epoch {} from index {}", moved->worker_id, moved->address,
                     moved->epoch, moved->next_index));
  } else if (const auto* end = std::get_if<client::FinishedEvent>(&item)) {
    end_ = *end;
    Text(end->tail_text);
    End();  // stdout alone is whole lines
    Note(fmt::format("{} after {} tokens", ShortName(end->reason), end->output_tokens));
  }
}

void StreamPrinter::Text(const std::string& text) {
  text_ += text;
  if (silent_ || text.empty()) return;
  out_ << text << std::flush;
  open_line_ = text.back() != '\n';
}

void StreamPrinter::Note(const std::string& note) {
  if (quiet_) return;
  // A note never lands in the middle of the text when both go to one terminal; stdout alone stays the text.
  err_ << (open_line_ ? "\n[" : "[") << note << "]\n" << std::flush;
  open_line_ = false;
}

void StreamPrinter::End() {
  if (open_line_) out_ << "\n" << std::flush;
  open_line_ = false;
}

Json StreamPrinter::Summary(const client::RequestStream& stream) const {
  const client::DeliveryLog& log = stream.log();
  Json moves = Json::array();
  for (const client::OwnerChange& c : log.OwnerChanges()) {
    moves.push_back({{"index", c.index},
                     {"from_epoch", c.from_epoch},
                     {"to_epoch", c.to_epoch},
                     {"pause_ms", absl::ToDoubleMilliseconds(c.pause)}});
  }
  Json tokens = Json::array();
  for (const client::TokenEvent& t : tokens_) tokens.push_back(TokenJson(t));
  return {{"request_id", stream.request_id()},
          {"text", Utf8OrReplaced(text_)},
          {"finish_reason", ShortName(end_.reason)},
          {"prompt_tokens", prompt_tokens_},
          {"output_tokens", end_.output_tokens},
          {"epoch", stream.merger().epoch()},
          {"worker", stream.merger().owner().worker_id},
          {"address", stream.merger().owner().address},
          {"lost", log.Lost(end_.output_tokens)},
          {"duplicated", log.Duplicated()},
          {"moves", moves},
          {"tokens", tokens}};
}

}  // namespace riskkv::cli
