// Spends its time in ways that are easy to take for another, and prints the true share.
//
// costs map         builds a map and destroys it, by turns
// costs callbacks   a destructor runs a queue of callbacks, as those of event loops do
// costs sort        a comparison that does the work, below std::sort, and a hash function that does it, below a hash table

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

static volatile uint64_t sink;

static double now() {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

__attribute__((noinline)) static uint64_t work(uint64_t rounds) {
    uint64_t x = rounds;
    for (uint64_t i = 0; i < rounds; i++) x = x * 6364136223846793005u + i;
    sink = x;
    return x;
}

using Map = std::map<int, std::string>;

__attribute__((noinline)) static std::unique_ptr<Map> build() {
    auto map = std::make_unique<Map>();
    for (int i = 0; i < 100000; i++) map->emplace(i * 7919 % 100003, std::string(40, 'x'));
    return map;
}

static double median(std::vector<double> values) {
    auto middle = values.begin() + values.size() / 2;
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

// Of the usual round: where the host of a virtual machine takes the CPU away, the clock goes on, and no timer ticks.
static double map(double seconds) {
    std::vector<double> building, destroying;
    double start = now(), end = start;
    while (end - start < seconds) {
        double begin = now();
        auto map = build();
        work(10000000);
        double before = now();
        map.reset();
        end = now();
        building.push_back(before - begin);
        destroying.push_back(end - before);
    }
    return median(destroying) / (median(building) + median(destroying));
}

struct Scope {
    std::vector<std::function<void()>> queue;
    __attribute__((noinline)) ~Scope() {
        for (auto &callback : queue) callback();
    }
};

static double callbacks(double seconds) {
    double start = now();
    while (now() - start < seconds) {
        Scope scope;
        for (int i = 0; i < 100; i++) scope.queue.push_back([] { work(100000); });
    }
    return 0;
}

struct Key {
    uint64_t number;
    bool operator==(const Key &other) const { return number == other.number; }
};

struct Hash {
    size_t operator()(const Key &key) const { return work(2000) ^ key.number; }
};

static double sort(double seconds) {
    double start = now();
    while (now() - start < seconds) {
        std::vector<uint64_t> numbers;
        std::unordered_set<Key, Hash> set;
        for (uint64_t i = 0; i < 2000; i++) {
            numbers.push_back(i * 7919 % 2003);
            set.insert(Key{i});
        }
        std::sort(numbers.begin(), numbers.end(), [](uint64_t a, uint64_t b) { return work(200), a < b; });
    }
    return 0;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    double share = !strcmp(mode, "map") ? map(2) : !strcmp(mode, "callbacks") ? callbacks(1) : sort(1);
    printf("share=%.4f\n", share);
}
