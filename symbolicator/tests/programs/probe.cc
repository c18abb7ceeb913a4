// Functions that a name may stand for: overloads, instances of a template, one that is only inlined, one chosen at the start.
extern "C" {
static long first(long x) { return x + 1; }
typedef long (*Function)(long);
__attribute__((used)) Function choose() { return first; }
long chosen(long x) __attribute__((ifunc("choose")));
}

namespace space {

volatile long sink;

__attribute__((noinline)) void over(int x) { sink = x; }
__attribute__((noinline)) void over(long x) { sink = x + 1; }

template <typename T>
__attribute__((noinline)) T twice(T x) {
    sink = static_cast<long>(x);
    return x + x;
}

inline __attribute__((always_inline)) void gone(long x) { sink = x * 5; }

__attribute__((noinline)) void many(long x) {
    gone(x);
    sink = x;
    gone(x + 1);
}

} // namespace space

int main(int argc, char **) {
    space::over(argc);
    space::over(static_cast<long>(argc));
    space::many(space::twice(argc) + space::twice(static_cast<long>(argc)));
    return chosen(argc) == 0;
}
