//go:build !linux

package keeper

import "syscall"

func hardenProcess() { syscall.Umask(0o077) }

func limitMemory() {}
