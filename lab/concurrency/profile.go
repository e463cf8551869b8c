package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	cores       = .25       // that every function may use
	memoryBytes = 256 << 20 // that every function may take
)

// A profile is a function: the work of a request.
type profile struct {
	name, about string
	wait, cpu   time.Duration
	bytes       int    // that a request holds while it waits
	pool        int    // connections of which a request holds one while it waits; 0 = no pool
	goMemLimit  string // GOMEMLIMIT of the process
	threads     bool   // a threaded Python server, whose threads share one lock
	busy        int    // the limit at which the demand of a busy function is measured
	between     []int  // limits that are measured besides those of all profiles
}

// limits of all profiles.
var limits = []int{1, 4, 8, 16, 32, 64, 100, 310}

func (p *profile) limits() []int { return slices.Sorted(slices.Values(append(p.between, limits...))) }

var profiles = []profile{
	{name: "cpu", about: "4 ms of cpu", cpu: 4 * time.Millisecond, busy: 64},
	{name: "mixed", about: "a wait of 50 ms, then 4 ms of cpu", wait: 50 * time.Millisecond, cpu: 4 * time.Millisecond, busy: 64},
	{name: "io", about: "a wait of 200 ms, then 1 ms of cpu", wait: 200 * time.Millisecond, cpu: time.Millisecond, busy: 64},
	{name: "threads", about: "Python's ThreadingHTTPServer: a wait of 20 ms, then 4 ms of cpu", wait: 20 * time.Millisecond, cpu: 4 * time.Millisecond, threads: true, busy: 310},
	{name: "mem", about: "8 MB held for 100 ms", wait: 100 * time.Millisecond, bytes: 8e6, busy: 8, between: []int{12}},
	{name: "mem-gc", about: "the same with GOMEMLIMIT 200 MiB", wait: 100 * time.Millisecond, bytes: 8e6, goMemLimit: "200MiB", busy: 8, between: []int{12}},
	{name: "pool", about: "one of 10 connections for 50 ms", wait: 50 * time.Millisecond, pool: 10, busy: 64, between: []int{10}},
}

// named returns the profiles of names, all of them without any.
func named(names []string) ([]*profile, error) {
	var list []*profile
	var known []string
	for i := range profiles {
		known = append(known, profiles[i].name)
		if len(names) == 0 {
			list = append(list, &profiles[i])
		}
	}
	for _, name := range names {
		found := false
		for i := range profiles {
			if profiles[i].name == name {
				list, found = append(list, &profiles[i]), true
			}
		}
		if !found {
			return nil, fmt.Errorf("unknown profile %q: want one of %s", name, strings.Join(known, ", "))
		}
	}
	return list, nil
}
