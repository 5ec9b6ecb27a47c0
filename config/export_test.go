package config

import "slices"

// MemberNames are the names of all members of idempotency, once for each block that
// has them: those of the guard are in two, which are one row of the reference.
func MemberNames() []string {
	r := reader{file: &File{}}
	return slices.Concat(r.topMembers(&Settings{}).names(), r.guardMembers(&Guard{}).names(),
		r.serverMembers(&Server{}).names(), r.toolMembers(&Tool{}).names())
}
