// Sends the notices in the store. Starts one carma-notify per notice without waiting for it, and
// retries failed notices later.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "daemon/loop/alarm.h"
#include "store/store.h"

namespace carma::daemon {

struct NoticeSenderOptions {
  std::string program;  // carma-notify
  std::string sendmail;
  base::Duration limit{30'000};    // for one attempt to send; real time
  std::int64_t max_processes = 0;  // limit for one user, as in task::NoticeOrder
};

class NoticeSender {
 public:
  // Called to store the result of sending a notice. Look() must be called once the result is
  // durable.
  using Take = std::function<void(store::Notice result)>;

  // All arguments must outlive this object.
  NoticeSender(boost::asio::io_context& loop, store::Store& store, base::Clock& clock,
               NoticeSenderOptions options, Take take);
  ~NoticeSender();
  NoticeSender(const NoticeSender&) = delete;
  NoticeSender& operator=(const NoticeSender&) = delete;

  // Looks for new notices in the store. Must also be called once results have become durable.
  void Look();
  void Follow(NoticeSenderOptions options) { options_ = std::move(options); }

 private:
  struct Sending;
  bool MayStart(const store::Notice& notice) const;
  void Start(store::Notice notice);
  void Finish(std::int64_t id);
  void TakeResult(store::Notice notice, int code, const std::string& text);

  boost::asio::io_context& loop_;
  store::Store& store_;
  base::Clock& clock_;
  NoticeSenderOptions options_;
  Take take_;
  Alarm next_;
  std::map<std::int64_t, std::unique_ptr<Sending>> sending_;  // by notice number
  // How often each notice was tried, including attempts whose results may not be durable yet.
  std::map<std::int64_t, int> tries_;
};

}  // namespace carma::daemon
