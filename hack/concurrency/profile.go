package main

import (
	"fmt"
	"strings"
	"time"
)

const (
	cores       = .25       // that every function may use
	memoryBytes = 256 << 20 // that every function may take
)

// A profile is a function: what a request asks of it.
type profile struct {
	name, about string
	wait, cpu   time.Duration
	bytes       int    // that a request holds while it waits
	pool        int    // connections of which a request holds one while it waits; 0 = no pool
	goMemLimit  string // GOMEMLIMIT of the process
	threads     bool   // a threaded Python server, whose threads share one lock
}

var profiles = []profile{
	{name: "cpu", about: "4 ms of cpu", cpu: 4 * time.Millisecond},
	{name: "mixed", about: "a wait of 50 ms, then 4 ms of cpu", wait: 50 * time.Millisecond, cpu: 4 * time.Millisecond},
	{name: "io", about: "a wait of 200 ms, then 1 ms of cpu", wait: 200 * time.Millisecond, cpu: time.Millisecond},
	{name: "threads", about: "Python's ThreadingHTTPServer: a wait of 20 ms, then 4 ms of cpu", wait: 20 * time.Millisecond, cpu: 4 * time.Millisecond, threads: true},
	{name: "mem", about: "8 MB held for 100 ms", wait: 100 * time.Millisecond, bytes: 8 << 20},
	{name: "mem-gc", about: "the same with GOMEMLIMIT 200 MiB", wait: 100 * time.Millisecond, bytes: 8 << 20, goMemLimit: "200MiB"},
	{name: "pool", about: "one of 10 connections for 50 ms", wait: 50 * time.Millisecond, pool: 10},
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
