// The host of a virtual machine sometimes delivers the exception of a breakpoint register without its cause (DR6 is 0: 3 times
// in 13 million here). The kernel takes it for the instruction INT1 and sends SIGTRAP. After the handler the instruction runs
// again, and its breakpoint is hit as it should.
#ifndef SPROF_TEST_BREAKPOINTS_H
#define SPROF_TEST_BREAKPOINTS_H

#include <signal.h>

static void run_the_instruction_again(int signal) { (void)signal; }

static inline void outlive_breakpoints_without_a_cause(void) { signal(SIGTRAP, run_the_instruction_again); }

#endif
