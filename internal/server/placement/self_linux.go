package placement

const sweepSupported = true

// selfPath is this very program, also after its file was replaced.
func selfPath() (string, error) { return "/proc/self/exe", nil }
