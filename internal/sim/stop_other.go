//go:build !unix

package main

import (
	"errors"
	"os"
)

// stopProcess does not stop a process here.
func stopProcess(*os.Process) error { return errors.ErrUnsupported }

func continueProcess(*os.Process) error { return errors.ErrUnsupported }
