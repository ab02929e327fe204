// Counts what operator new hands out in this program.
#ifndef RISKKV_KERNELS_TESTS_ALLOC_COUNTER_H_
#define RISKKV_KERNELS_TESTS_ALLOC_COUNTER_H_

namespace riskkv::kernels::test {

long AllocationCount();

}  // namespace riskkv::kernels::test

#endif  // RISKKV_KERNELS_TESTS_ALLOC_COUNTER_H_
