package trace

import (
	"fmt"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A replay holds these in memory one by one. They are bounded, so that a wrong
// number in a file is an error with a line and does not exhaust the memory.
const (
	maxItems    = 1 << 27 // of all requests together
	maxMachines = 1 << 22 // of a fixed fleet; of an open one the highest index in placed.csv
	maxDevices  = 1 << 16 // of one dimension on one machine
)

// A Trace is a fleet, its applications and the requests to it over time.
type Trace struct {
	Name        string
	Description string
	// Source is the source of the trace: origin, generator, seed, parameters,
	// method. It is part of digest.trace, not of digest.instance.
	Source   map[string]any
	Instance *binpack.Instance
	// MeasureFrom is the start of all time integrals in seconds; NaN if the trace
	// does not set it.
	MeasureFrom float64
	// Requests holds those of placed.csv first, in order of first appearance,
	// then the creates of events.csv in file order.
	Requests []Request
	// Initial is the number of leading Requests from placed.csv.
	Initial int
	Placed  []Placed
	// Events in file order. Times do not decrease.
	Events []Event

	usage *usageSource // nil = none
}

// Fixed returns the requests of placed.csv that must not move, each with the reason: the source's
// fixed.
func (t *Trace) Fixed() (map[string]any, error) { return t.reasons("fixed") }

// Ignored returns the requests with constraints that the trace does not have, each with the reason: the source's
// ignored. The figures of a trace hold without these constraints.
func (t *Trace) Ignored() (map[string]any, error) { return t.reasons("ignored") }

func (t *Trace) reasons(key string) (map[string]any, error) {
	of, ok := t.Source[key].(map[string]any)
	if t.Source[key] != nil && !ok {
		return nil, fmt.Errorf("%s: source.%s: want requests, each with the reason", manifestFile, key)
	}
	return of, nil
}

// A Request is for Count items of one app, numbered from 0.
type Request struct {
	Name  string
	App   int32
	Count int32
}

// Kind is the kind of an [Event].
type Kind uint8

const (
	// Create requests all items of a request.
	Create Kind = iota
	// Delete removes the highest-numbered items of a request that are not yet deleted.
	Delete
)

// An Event is one line of events.csv.
type Event struct {
	Time    float64 // seconds
	Kind    Kind
	Request int32 // index into Trace.Requests
	// Count is the number of items: of a Create all of its request, of a Delete
	// how many; an empty field is resolved to all that remain.
	Count int32
}

// A Placed is one line of placed.csv: Count items of a request on one machine.
// A request's items are numbered in line order.
type Placed struct {
	Request int32
	Line    int32 // index into Instance.Machines
	Index   int32 // of the machine within its line
	Count   int32
	// Devices are those that each item of the line uses, in order of dimension
	// and index; nil when its app uses none.
	Devices []Device
}

// A Device is one device of a machine: its dimension and its index.
type Device = binpack.Device
