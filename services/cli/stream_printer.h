// A request's stream for people: text on stdout as it comes, notes about moves on stderr; and its account for
// machines.
#ifndef RISKKV_SERVICES_CLI_STREAM_PRINTER_H_
#define RISKKV_SERVICES_CLI_STREAM_PRINTER_H_

#include <ostream>
#include <string>
#include <vector>

#include "services/cli/proto_json.h"
#include "services/client/request_stream.h"

namespace riskkv::cli {

class StreamPrinter {
 public:
  // silent: no text; quiet: no notes.
  StreamPrinter(std::ostream& out, std::ostream& err, bool silent, bool quiet)
      : out_(out), err_(err), silent_(silent), quiet_(quiet) {}

  void Print(const client::StreamItem& item);
  // Ends the last line of text.
  void End();
  // What was received, where from, and this client's own counts.
  Json Summary(const client::RequestStream& stream) const;
  const std::string& text() const { return text_; }

 private:
  void Note(const std::string& note);
  void Text(const std::string& text);

  std::ostream& out_;
  std::ostream& err_;
  const bool silent_, quiet_;
  std::string text_;
  bool open_line_ = false;
  std::vector<client::TokenEvent> tokens_;
  client::FinishedEvent end_;
  int64_t prompt_tokens_ = 0;
};

std::string ShortName(client::FinishReason reason);

}  // namespace riskkv::cli

#endif  // RISKKV_SERVICES_CLI_STREAM_PRINTER_H_
