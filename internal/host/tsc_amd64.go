package host

// haveTSC: every amd64 processor has one.
const haveTSC = true

// rdtsc reads the time-stamp counter, after all earlier instructions.
func rdtsc() uint64
