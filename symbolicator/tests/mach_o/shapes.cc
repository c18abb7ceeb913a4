// Templates, a lambda, an anonymous namespace, virtual calls. No header is included: this is compiled for another system.
namespace {

volatile int sink;

__attribute__((noinline)) int scaled(int x) {
    sink = x;
    return sink * 7 % 13;
}

} // namespace

namespace shapes {

class Shape {
  public:
    virtual int area() const = 0;
};

template <typename T>
class Square final : public Shape {
  public:
    explicit Square(T side) : side_(side) {}
    __attribute__((noinline)) int area() const override { return squared(side_); }

  private:
    static __attribute__((always_inline)) int squared(T side) {
        sink = side;
        return side * side + scaled(side);
    }
    T side_;
};

__attribute__((noinline)) int area_of(const Shape &shape) {
    return shape.area() + 1;
}

} // namespace shapes

extern "C" int shape_area(int x) {
    auto more = [](int y) __attribute__((noinline)) { return scaled(y) + 2; };
    return shapes::area_of(shapes::Square<int>(x)) + more(x);
}
