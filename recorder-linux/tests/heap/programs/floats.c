// Takes blocks while each floating-point exception ends the program. Ends with 5 if all flags are as they were.
#include <stdlib.h>
#include <xmmintrin.h>

int main(void) {
    // All exceptions unmasked, no flag set.
    unsigned before = 0;
    _mm_setcsr(before);
    for (int i = 0; i < 100000; i++) {
        void *volatile block = malloc(1000);
        free(block);
    }
    return _mm_getcsr() == before ? 5 : 6;
}
