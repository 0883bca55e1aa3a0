package seal

import (
	"os"
	"syscall"
)

func ctime(st *syscall.Stat_t) int64 { return st.Ctimespec.Nano() }

// nextData takes all for data: blocks of zeros are found by reading.
func nextData(_ *os.File, off, size int64) (start, end int64, err error) {
	return off, size, nil
}
