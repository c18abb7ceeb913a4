// Enough of the standard library for dwz to find debug info that two programs share.
#include <map>
#include <string>

int main(int argc, char **) {
    std::map<std::string, int> counts;
    for (int i = 0; i < argc * 10; i++) {
        counts[std::to_string(i % 7)] += i;
    }
    return counts.size() == 7 ? 0 : 1;
}
