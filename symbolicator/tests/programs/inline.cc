// Line numbers matter: the tests name them.
namespace space {

volatile int sink;

template <typename T>
struct Box {
    T value;
    __attribute__((always_inline)) inline void put(int x) const {
        sink = x * 3; // line 10
    }
};

__attribute__((noinline)) void outer(int x, const Box<long> &box) {
    sink = x;
    box.put(x); // line 16
}

} // namespace space

int main(int argc, char **) {
    space::outer(argc, space::Box<long>{1}); // line 22
    return 0;
}
