// Inlined templates, lambdas, an anonymous namespace, exceptions with cold parts, virtual calls. Nothing here is timed.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

int hidden(int x) {
    if (x < 0) throw std::runtime_error("negative " + std::to_string(x));
    return x * 7 % 13;
}

struct Order {
    bool operator()(const std::string &a, const std::string &b) const { return a.size() < b.size() || (a.size() == b.size() && a < b); }
};

} // namespace

namespace shapes {

class Shape {
  public:
    virtual ~Shape() = default;
    virtual double area() const = 0;
};

template <typename T>
class Square final : public Shape {
  public:
    explicit Square(T side) : side_(side) {}
    double area() const override { return side_ * side_; }
    Square operator+(const Square &other) const { return Square(side_ + other.side_); }

  private:
    T side_;
};

} // namespace shapes

static int count_words(const std::vector<std::string> &words) {
    std::map<std::string, int, Order> counts;
    for (const auto &word : words) ++counts[word];
    return std::accumulate(counts.begin(), counts.end(), 0, [](int sum, const auto &entry) { return sum + hidden(entry.second); });
}

extern "C" __attribute__((noinline)) int from_c(int x) {
    static int calls = 0;
    return ++calls + x;
}

int main(int argc, char **argv) {
    std::vector<std::string> words(argv, argv + argc);
    words.push_back("last");
    std::sort(words.begin(), words.end(), [](const auto &a, const auto &b) { return a > b; });
    std::unique_ptr<shapes::Shape> shape = std::make_unique<shapes::Square<double>>(shapes::Square<double>(argc) + shapes::Square<double>(2));
    try {
        std::printf("%d %f %d\n", count_words(words), shape->area(), from_c(argc));
    } catch (const std::exception &error) {
        std::puts(error.what());
    }
    return 0;
}
