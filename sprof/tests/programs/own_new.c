// An allocator's library with an operator new (-DLIBRARY), or a program that takes memory by it.
#include <stdlib.h>

#ifdef LIBRARY
void *_Znwm(unsigned long bytes) { return malloc(bytes); }
#else
void *_Znwm(unsigned long bytes);

int main(void) { return _Znwm(10) == NULL; }
#endif
