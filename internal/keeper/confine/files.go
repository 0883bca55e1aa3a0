package confine

import (
	"fmt"
	"os"
	"path/filepath"

	"rigs/internal/keeperapi"
)

// Files is what a keeper and its QEMU may use beside the system's programs. What
// is not there is left out: whoever opens it says so better.
type Files struct {
	Program string   // QEMU
	Read    []string // files, and directories with what is in them
	Map     []string // files that are opened for writing and not written
	Write   []string // directories of QEMU's and the keeper's
	Own     []string // directories of the keeper's alone
}

// FilesOf takes them from a keeper's configuration. memory is the name of the
// memory file in a template.
func FilesOf(c keeperapi.Config, memory string) Files {
	f := Files{Program: c.Machine.QEMU, Read: []string{c.Boot.Kernel, c.Boot.Initrd, c.Boot.RootFS, c.Boot.Blank}, Write: []string{c.DiskDir}, Own: []string{c.RuntimeDir}}
	if c.Template != "" {
		f.Read = append(f.Read, c.Template)
		f.Map = append(f.Map, filepath.Join(c.Template, memory))
	}
	if c.TemplateDir != "" {
		f.Write = append(f.Write, c.TemplateDir)
	}
	if d := os.Getenv("GOCOVERDIR"); d != "" { // of a binary that is built to be measured
		f.Own = append(f.Own, d)
	}
	return f
}

// Lacks says what a kernel with a version of Landlock cannot keep a keeper from, or
// nothing.
func Lacks(abi int) string {
	switch {
	case abi < 1:
		return "the kernel has no Landlock (Linux 5.13 and newer have, when 'landlock' is in their list of security modules): what keepers can read and write is up to the modes of files alone"
	case abi < 6:
		return fmt.Sprintf("the kernel's Landlock has version %d: from version 6 (Linux 6.12) on it also keeps a keeper from signalling other processes of its user", abi)
	}
	return ""
}
