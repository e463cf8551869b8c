package trace

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
)

// The columns of each table in the order of the format. Those of the dimensions are
// between the two parts of machineColumns and appColumns.
var (
	machineColumns = []string{"machine", "type", "count", "cost"}
	appColumns     = []string{"app", "group", "types", "max_per_machine", "spread_min", "expected", "lifetime"}
	// Written only where some value is set, and read behind the dimensions.
	zoneColumn, softColumn = "zone", "soft"
	zoneLimitColumns       = []string{"max_per_zone", "zone_spread_min", "zone_skew"}
	ruleColumns            = []string{"app", "other", "max"}
	scopeColumn            = "scope"
	pairColumns            = []string{"app", "other", "bits_per_second", "pattern"}
	placedColumns          = []string{"request", "app", "machine", "count", "devices"}
	eventColumns           = []string{"time", "kind", "request", "app", "count"}
)

// Positions in machineColumns.
const (
	machineName = iota
	machineType
	machineCount
	machineCost
	machineFields
)

// Positions in appColumns.
const (
	appName = iota
	appGroup
	appTypes
	appLimit
	appSpread
	appExpected
	appLifetime
	appFields
)

// appBeforeDimensions is the number of appColumns before the dimensions.
const appBeforeDimensions = appLimit

// Positions in placedColumns.
const (
	placedRequest = iota
	placedApp
	placedMachine
	placedCount
	placedDevices
)

// Positions in eventColumns.
const (
	eventTime = iota
	eventKind
	eventRequest
	eventApp
	eventCount
)

// Names of kinds in events.csv.
const (
	createText = "create"
	deleteText = "delete"
)

// read reads a whole trace. Each step may rely on those before it.
func (f files) read() (*Trace, error) {
	if err := f.complete(); err != nil {
		return nil, err
	}
	t := &Trace{Instance: &binpack.Instance{}}
	b := &builder{trace: t, instance: t.Instance}
	for _, step := range []struct {
		file string
		read func(io.Reader) error
	}{
		{manifestFile, b.readManifest},
		{machinesFile, b.readMachines},
		{appsFile, b.readApps},
		{rulesFile, b.readRules},
		{pairsFile, b.readPairs},
		{placedFile, b.readPlaced},
		{eventsFile, b.readEvents},
	} {
		if err := f.readFile(step.file, step.read); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (f files) readFile(name string, read func(io.Reader) error) error {
	open, ok := f[name]
	if !ok {
		return nil // a necessary one is there: complete
	}
	r, err := open()
	if err != nil {
		return err
	}
	return errors.Join(read(r), r.Close())
}

// A builder holds the state of reading a trace.
type builder struct {
	trace    *Trace
	instance *binpack.Instance
	manifest manifest

	items     int64 // placed
	types     map[string]int32
	groups    map[string]int32
	apps      map[string]int32
	requests  map[string]int32
	preferred []groupOfTerm // of apps.csv, for when all groups are known

	// quantities[dimension] are those of the machines, then those of the apps;
	// lines has their lines. The unit of a dimension follows from all.
	quantities          [][]Quantity
	machineLines, lines []int
}

func (b *builder) readManifest(r io.Reader) error {
	var err error
	if b.manifest, err = readManifest(r); err != nil {
		return err
	}
	b.trace.Name, b.trace.Description = b.manifest.name, b.manifest.description
	b.trace.Source, b.trace.MeasureFrom = b.manifest.source, b.manifest.measureFrom
	if c, ok := b.trace.Source["currency"].(string); b.trace.Source["currency"] != nil && (!ok || !currencies.MatchString(c)) {
		return fmt.Errorf("%s: source.currency: %s", manifestFile, wantCurrency)
	}
	if how := b.trace.Source["requests"]; how != nil && how != "whole" {
		return fmt.Errorf("%s: source.requests: %v: want whole, or nothing", manifestFile, how)
	}
	b.instance.MaxShareOfApp = b.manifest.maxShareOfApp
	b.instance.Fleet = b.manifest.fleet
	b.quantities = make([][]Quantity, len(b.manifest.dimensions))
	return nil
}

// quantitiesOf reads the columns of the dimensions, which start at first.
func (b *builder) quantitiesOf(rows *table, first int, role string) error {
	for d := range b.quantities {
		q, err := ParseQuantity(rows.field(first + d))
		if err != nil {
			return rows.bad(first+d, err)
		}
		if b.isDevice(d) {
			whole := q.unit == 0
			if role == "capacity" && (!whole || q.value > maxDevices) {
				return rows.badf(first+d, "the capacity of a device dimension is a number of devices, at most %d", maxDevices)
			}
			if role == "demand" && !whole && q.value > units[q.unit].one {
				return rows.badf(first+d, "a demand of more than one device is a whole number")
			}
		}
		b.quantities[d] = append(b.quantities[d], q)
	}
	return nil
}

// setDimensions finds the unit of each dimension and hands out the amounts.
func (b *builder) setDimensions() error {
	in := b.instance
	dims := len(b.manifest.dimensions)
	backing := make([]int64, dims*len(b.lines))
	row := func(i int) []int64 { return backing[i*dims : (i+1)*dims : (i+1)*dims] }
	for d, name := range b.manifest.dimensions {
		dim, amounts, err := NewDimension(name, b.isDevice(d), b.quantities[d])
		if value, ok := errors.AsType[*valueError](err); ok {
			file := machinesFile
			if value.index >= len(in.Machines) {
				file = appsFile
			}
			return fmt.Errorf("%s:%d: %w", file, b.lines[value.index], err)
		} else if err != nil {
			return err
		}
		in.Dimensions = append(in.Dimensions, dim)
		for i, amount := range amounts {
			row(i)[d] = amount
		}
		b.quantities[d] = nil
	}
	for i := range in.Machines {
		in.Machines[i].Capacity = row(i)
	}
	for i := range in.Apps {
		in.Apps[i].Demand = row(len(in.Machines) + i)
	}
	return nil
}

const zoneScope = "zone"

func (b *builder) readRules(r io.Reader) error {
	rows, err := newTable(rulesFile, r, append(slices.Clone(ruleColumns), scopeColumn), scopeColumn)
	if err != nil {
		return err
	}
	group := func(column int) (int32, error) {
		i, ok := b.groups[rows.field(column)]
		if !ok {
			return 0, rows.badf(column, "unknown group")
		}
		return i, nil
	}
	for err = rows.next(); err == nil; err = rows.next() {
		var rule binpack.Rule
		if rule.A, err = group(0); err != nil {
			return err
		}
		if rule.B, err = group(1); err != nil {
			return err
		}
		if rule.A == rule.B {
			return rows.badf(1, "a rule between a group and itself: use max_per_machine, or max_per_zone")
		}
		if rule.Max, err = rows.count(2, 0); err != nil {
			return err
		}
		switch rows.field(len(ruleColumns)) {
		case "", "machine":
			b.instance.Rules = append(b.instance.Rules, rule)
		case zoneScope:
			b.instance.ZoneRules = append(b.instance.ZoneRules, rule)
		default:
			return rows.badf(len(ruleColumns), "want machine or zone")
		}
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func (b *builder) readPlaced(r io.Reader) error {
	rows, err := newTable(placedFile, r, placedColumns, "devices")
	if err != nil {
		return err
	}
	t := b.trace
	b.requests = map[string]int32{}
	names := NewMachineNames(b.instance)
	for err = rows.next(); err == nil; err = rows.next() {
		var p Placed
		if p.Count, err = rows.count(placedCount, 1); err != nil {
			return err
		}
		if p.Line, p.Index, err = names.Parse(rows.field(placedMachine)); err != nil {
			return rows.bad(placedMachine, err)
		}
		if p.Index >= maxMachines {
			return rows.badf(placedMachine, "machine index %d: want below %d", p.Index, maxMachines)
		}
		if p.Request, err = b.placedRequest(rows, p.Count); err != nil {
			return err
		}
		demand := b.instance.Apps[t.Requests[p.Request].App].Demand
		if p.Devices, err = ParseDevices(b.instance, rows.field(placedDevices)); err == nil {
			err = checkDevices(b.instance, p.Devices, demand, b.instance.Machines[p.Line].Capacity)
		}
		if err != nil {
			return rows.bad(placedDevices, err)
		}
		t.Placed = append(t.Placed, p)
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	t.Initial = len(t.Requests)
	return nil
}

// placedRequest is the index of the row's request, which grows by count items.
func (b *builder) placedRequest(rows *table, count int32) (int32, error) {
	app, ok := b.apps[rows.field(placedApp)]
	if !ok {
		return 0, rows.badf(placedApp, "unknown app")
	}
	name, err := rows.name(placedRequest)
	if err != nil {
		return 0, err
	}
	if b.items += int64(count); b.items > maxItems {
		return 0, rows.badf(placedCount, "more than %d items in all", maxItems)
	}
	i, ok := b.requests[name]
	if !ok {
		i = int32(len(b.trace.Requests))
		name = strings.Clone(name)
		b.requests[name] = i
		b.trace.Requests = append(b.trace.Requests, Request{name, app, count})
		return i, nil
	}
	request := &b.trace.Requests[i]
	if request.App != app {
		return 0, rows.badf(placedApp, "request %q is of app %q in a line before", name, b.instance.Apps[request.App].Name)
	}
	request.Count += count
	return i, nil
}

func (b *builder) readEvents(r io.Reader) error {
	events, err := newEventReader(r, b.trace, b.apps, b.requests)
	if err != nil {
		return err
	}
	for {
		e, err := events.Next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		b.trace.Events = append(b.trace.Events, e)
	}
}
