//go:build !linux

package main

import "errors"

func run() error { return errors.New("rigs-guest runs in Linux guests only") }
