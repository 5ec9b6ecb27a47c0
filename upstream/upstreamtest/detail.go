package upstreamtest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// check fails where the detail of the action cannot be understood, so that the
// server does not start with a fault that would strike otherwise than meant.
func (f *fault) check() (err error) {
	switch f.action {
	case "delay", "slow_headers", "slow_body":
		_, err = time.ParseDuration(f.detail)
	case "progress", "big":
		_, err = strconv.Atoi(f.detail)
	case "cut", "exit":
		if f.detail != "" {
			_, err = strconv.Atoi(f.detail)
		}
	case "error", "status", "rpc_status", "redirect":
		code, _, _ := strings.Cut(f.detail, ":")
		var number int
		if number, err = strconv.Atoi(code); err == nil && f.action != "error" && (number < 200 || number > 599) {
			err = fmt.Errorf("%d is not a status that ends a request", number)
		}
	case "gate", "request", "notify":
		if f.detail == "" {
			err = fmt.Errorf("do=%s: what is missing", f.action)
		}
	case "sse":
		_, err = parseStyle(f.detail)
	}
	return err
}

// duration, number and code read a detail that check has let pass.

func (f *fault) duration() time.Duration {
	d, err := time.ParseDuration(f.detail)
	must(err)
	return d
}

// number is what the detail says, or otherwise.
func (f *fault) number(otherwise int) int {
	if f.detail == "" {
		return otherwise
	}
	n, err := strconv.Atoi(f.detail)
	must(err)
	return n
}

// code is the number before the first colon of the detail; text is what is
// behind it, and ok whether there was a colon.
func (f *fault) code() (number int, text string, ok bool) {
	code, text, ok := strings.Cut(f.detail, ":")
	number, err := strconv.Atoi(code)
	must(err)
	return number, text, ok
}

// status is the status and the body of the response that the fault asks for.
func (f *fault) status() (status int, body string) {
	status, body, given := f.code()
	if !given && status >= 400 {
		body = fmt.Sprintf(`{"error":"%s","status":%d}`, http.StatusText(status), status)
	}
	return status, body
}
