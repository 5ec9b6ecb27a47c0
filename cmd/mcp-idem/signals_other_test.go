//go:build !unix

package main

import "os"

// signals are those that scripts send: none, where there are none.
var signals = map[string]os.Signal{}
