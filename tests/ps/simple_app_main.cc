// The scheduler sends 100 requests to every node, itself included, and waits for all answers; each
// node counts what it handled.
#include <atomic>

#include "ps/ps.h"

namespace {

constexpr int kRequests = 100;
std::atomic<int> handled{0};

void on_request(const ps::SimpleData& request, ps::SimpleApp* app) {
  CHECK_EQ(request.head, 1);
  CHECK_EQ(request.body, "test");
  ++handled;
  app->Response(request, "seen");
}

}  // namespace

int main() {
  ps::Start(0);
  ps::SimpleApp app(0, 0);
  int answered = 0;
  app.set_request_handle(on_request);
  app.set_response_handle([&](const ps::SimpleData& response, ps::SimpleApp*) {
    CHECK_EQ(response.body, "seen");
    ++answered;
  });
  if (ps::IsScheduler()) {
    const int all = ps::kScheduler + ps::kServerGroup + ps::kWorkerGroup;
    std::vector<int> requests;
    for (int i = 0; i < kRequests; ++i) requests.push_back(app.Request(1, "test", all));
    for (int request : requests) app.Wait(request);
    CHECK_EQ(answered, kRequests * (1 + ps::NumServers() + ps::NumWorkers()));
  }
  ps::Finalize(0, true);
  CHECK_EQ(handled.load(), kRequests);
  return 0;
}
