// When hosts that a training has lost are asked whether they can take part again. A host that fails again soon after it
// was taken back is asked after ever longer pauses. Used by the launcher of a training.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace mlx::dist {

// Times are seconds of one clock.
class Returns {
 public:
  static constexpr double kInterval = 10, kLongest = 3600;
  static constexpr double kSoon = 600;  // after it was taken back

  explicit Returns(double interval = kInterval) : interval_(interval) {}

  // It does not take part from now on; nothing if it did not.
  void lose(const std::string& host, double now);
  // It takes part; nothing if it did.
  void take_back(const std::string& host, double now);
  // Whether it is to be asked now; then the next time is after its pause.
  bool asks(const std::string& host, double now);
  std::vector<std::string> missing() const;
  // Those that were taken back so soon before a failure that it may be theirs.
  std::vector<std::string> suspects(double now) const;

 private:
  struct Absence {
    bool missing = false, was_back = false;
    double pause = 0, next = 0;  // the next time that it is asked
    double back = 0;
  };
  double interval_;
  std::map<std::string, Absence> hosts_;
};

}  // namespace mlx::dist
