package convert

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// azure is what Huawei's trace generator made of Microsoft's AzurePublicDataset
// V1: virtual machines of 16 flavours in batches; a batch is what one tenant asks
// for at once.
//
//	flav_map               cpu,memory in GB and the letter of each flavour
//	v1.NAME                second, then letters; | ends a batch
//	v1.NAME.cSECOND        the same places: U and the bin of the lifetime, or C
//	                       where the machine outlived the end at SECOND
//	interval_map           seconds and the bin of a lifetime this long
//
// The set has no hosts: ours have 64 cpu and 448 GB. A lifetime is the shortest
// of its bin, and a machine that outlived the end stays. A request is a run of
// equal flavours in a batch; its items are equal, so those that live longest come
// first and the highest-numbered leave first.
//
// With Options.Until, that second is the end of observation.
var azure = Format{
	Name: "azure",
	Help: "flav_map, v1.dev, v1.dev.c2100000, interval_map: virtual machines that come in batches and go",
	options: func(flags *flag.FlagSet, o *Options) {
		flags.Int64Var(&o.From, "from", 0, "only rows from this second on")
		flags.Int64Var(&o.Until, "until", 0, "only rows before this second; virtual machines that live longer stay (default the end of the file)")
	},
	convert: convertAzure,
}

// Capacity of a host.
const (
	azureCPU    = "64"
	azureMemory = "448G"
)

// An azureSet holds what has been read of the files.
type azureSet struct {
	names    []string // of flavours
	amounts  [][]trace.Quantity
	flavours map[string]int32  // letter → app
	shortest map[int64]float64 // lifetime of each bin
	trace    *trace.Trace
	leaving  []trace.Event

	from, until int64 // of rows; until is also the end of observation

	batches, items, censored int
}

var (
	azurePart      = regexp.MustCompile(`^v\d+\.\w+$`)
	azureLifetimes = regexp.MustCompile(`^(v\d+\.\w+)\.c\d+\.txt$`)
)

func convertAzure(in inputs, opt Options, emit Emit) error {
	var parts []string // those with lifetimes; others cannot be replayed
	for _, f := range in {
		if m := azureLifetimes.FindStringSubmatch(f.name); m != nil {
			parts = append(parts, m[1])
		}
	}
	if len(parts) == 0 {
		return errors.New("no file is named like v1.dev.c2100000.txt, with lifetimes")
	}
	for _, f := range in {
		if base := strings.TrimSuffix(f.name, ".txt"); azurePart.MatchString(base) && !slices.Contains(parts, base) {
			opt.warnf("skipped: %s: no file has its lifetimes", f.path)
		}
	}
	slices.Sort(parts)
	if opt.From < 0 || opt.Until < 0 || opt.Until > 0 && opt.Until <= opt.From {
		return fmt.Errorf("from %d until %d: no second lies between", opt.From, opt.Until)
	}
	for _, part := range parts {
		s := azureSet{
			flavours: map[string]int32{}, shortest: map[int64]float64{},
			from: opt.From, until: cmp.Or(opt.Until, math.MaxInt64),
		}
		if err := s.read(in, part); err != nil {
			return err
		}
		if err := emit(s.trace, len(parts)); err != nil {
			return err
		}
	}
	return nil
}

func (s *azureSet) read(in inputs, part string) error {
	files := map[string]any{}
	s.trace = &trace.Trace{
		Name:        "azure-" + slug(part),
		Instance:    &binpack.Instance{Types: []string{"host"}, Fleet: binpack.Open},
		MeasureFrom: math.NaN(),
		Source: map[string]any{
			"origin": "azure",
			"files":  files,
			// This text is part of the digest that policies name as their provenance,
			// so it keeps its words.
			"method": "app is the flavour, a request a run of one flavour in a batch; " +
				"a lifetime is the lower edge of its bin, who outlived the end stays; hosts of 64 cpu and 448 GB",
		},
	}
	if s.from > 0 || s.until < math.MaxInt64 {
		s.trace.Source["parameters"] = map[string]any{"from": s.from, "until": s.until}
	}
	var lifetimes []string
	for _, step := range []struct {
		word string
		each func(text string) error
	}{
		{"flav_map.txt", s.flavour},
		{"interval_map.txt", s.interval},
		{part + ".c", func(text string) error { lifetimes = append(lifetimes, text); return nil }},
		{part + ".txt", func(text string) error {
			if len(lifetimes) == 0 {
				return errors.New("lifetimes: the other file has no such line")
			}
			text, lives := text, lifetimes[0]
			lifetimes = lifetimes[1:]
			return s.row(text, lives)
		}},
	} {
		f, err := in.one(step.word)
		if err != nil {
			return err
		}
		content, err := f.read()
		if err != nil {
			return err
		}
		files[f.name] = digest(content)
		if err := f.lines(content, step.each); err != nil {
			return err
		}
		if step.word == "flav_map.txt" {
			if err := s.setDimensions(); err != nil {
				return fmt.Errorf("%s: %w", f.path, err)
			}
		}
		if step.word == part+".txt" && len(lifetimes) > 0 {
			return fmt.Errorf("%s:%d: the file ends, %d lines before that with lifetimes", f.path, lastLine(content), len(lifetimes))
		}
		if step.word == part+".txt" && s.items == 0 {
			return fmt.Errorf("%s:1: no virtual machine", f.path)
		}
	}
	s.merge()
	s.trace.Description = fmt.Sprintf("Azure V1, %s: %d virtual machines in %d batches, %d of them stay",
		part, s.items, s.batches, s.censored)
	return nil
}

// flavour reads "2,14 e".
func (s *azureSet) flavour(text string) error {
	size, letter, ok := strings.Cut(text, " ")
	cpu, memory, two := strings.Cut(size, ",")
	if !ok || !two || letter == "|" || strings.ContainsAny(letter, ", ") {
		return fmt.Errorf("flavour %q: want cpu,memory letter", text)
	}
	if _, ok := s.flavours[letter]; ok {
		return fmt.Errorf("flavour %q: duplicate letter", letter)
	}
	c, err := trace.ParseQuantity(cpu)
	if err != nil {
		return fmt.Errorf("cpu %q: %w", cpu, err)
	}
	m, err := trace.ParseQuantity(memory + "G")
	if err != nil {
		return fmt.Errorf("memory %q: %w", memory, err)
	}
	s.flavours[letter] = int32(len(s.names))
	s.names = append(s.names, letter)
	s.amounts = append(s.amounts, []trace.Quantity{c, m})
	return nil
}

func (s *azureSet) setDimensions() error {
	inst := s.trace.Instance
	inst.Machines = []binpack.MachineLine{{Name: "host", Count: binpack.Unlimited, Cost: 1}}
	for _, name := range s.names {
		addApp(inst, name, nil)
	}
	for d, column := range []struct{ name, capacity string }{{"cpu", azureCPU}, {"memory", azureMemory}} {
		whole, err := trace.ParseQuantity(column.capacity)
		if err != nil {
			return err
		}
		all := []trace.Quantity{whole}
		for _, q := range s.amounts {
			all = append(all, q[d])
		}
		dim, values, err := trace.NewDimension(column.name, false, all)
		if err != nil {
			return err
		}
		inst.Dimensions = append(inst.Dimensions, dim)
		inst.Machines[0].Capacity = append(inst.Machines[0].Capacity, values[0])
		for a := range inst.Apps {
			inst.Apps[a].Demand = append(inst.Apps[a].Demand, values[1+a])
		}
	}
	return nil
}

// interval reads "300 1": a lifetime of 300 seconds is in bin 1.
func (s *azureSet) interval(text string) error {
	fields := strings.Fields(text)
	var n [2]int64
	if len(fields) != 2 {
		return fmt.Errorf("interval %q: want seconds and bin", text)
	}
	if err := readCounts([]string{"seconds", "bin"}, fields, n[:]); err != nil {
		return err
	}
	if shortest, ok := s.shortest[n[1]]; !ok || float64(n[0]) < shortest {
		s.shortest[n[1]] = float64(n[0])
	}
	return nil
}

// row reads what arrives at one time, and how long each lives.
func (s *azureSet) row(text, lives string) error {
	second, what, _ := strings.Cut(text, " ")
	at, err := strconv.ParseInt(second, 10, 64)
	if err != nil || at < 0 || at > binpack.MaxValue {
		return fmt.Errorf("second %q: not a time", second)
	}
	if n := len(s.trace.Events); n > 0 && s.trace.Events[n-1].Time > float64(at) {
		return fmt.Errorf("second %q: before the line above", second)
	}
	other, lives, _ := strings.Cut(lives, " ")
	if other != second {
		return fmt.Errorf("second %q: the lifetimes are of second %q", second, other)
	}
	if what == "" && lives == "" || at < s.from || at >= s.until {
		return nil
	}
	letters, lifetimes := strings.Split(what, ","), strings.Split(lives, ",")
	if len(letters) != len(lifetimes) {
		return fmt.Errorf("%d machines and separators, but %d lifetimes", len(letters), len(lifetimes))
	}
	run := "" // the flavour of the request in the making
	for i, letter := range letters {
		if (letter == "|") != (lifetimes[i] == "|") {
			return fmt.Errorf("place %d: %q has lifetime %q", i, letter, lifetimes[i])
		}
		if letter == "|" {
			s.batches++
			run = ""
			continue
		}
		if letter == "" || letter != run {
			app, ok := s.flavours[letter]
			if !ok {
				return fmt.Errorf("place %d: unknown flavour %q", i, letter)
			}
			run = letter
			arrive(s.trace, float64(at), app, 0)
		}
		if err := s.machine(float64(at), lifetimes[i]); err != nil {
			return fmt.Errorf("place %d: lifetime %q: %w", i, lifetimes[i], err)
		}
	}
	if run != "" { // a last batch that nothing closes
		s.batches++
	}
	return nil
}

// machine adds one to the last request.
func (s *azureSet) machine(at float64, life string) error {
	last := len(s.trace.Requests) - 1
	s.trace.Requests[last].Count++
	s.items++
	number, stays := strings.CutPrefix(life, "C")
	if !stays {
		number = strings.TrimPrefix(life, "U")
	}
	bin, err := strconv.ParseInt(number, 10, 32)
	if err != nil || !stays && number == life {
		return errors.New("want U or C and a bin")
	}
	if stays {
		s.censored++
		return nil
	}
	shortest, ok := s.shortest[bin]
	if !ok {
		return errors.New("unknown bin")
	}
	if at+shortest >= float64(s.until) {
		s.censored++
		return nil
	}
	s.leaving = append(s.leaving, trace.Event{Time: at + shortest, Kind: trace.Delete, Request: int32(last), Count: 1})
	return nil
}

// merge merges creates and deletes: at equal times deletes come first, but none
// before its own create.
func (s *azureSet) merge() {
	slices.SortStableFunc(s.leaving, func(a, b trace.Event) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Request, b.Request))
	})
	var events []trace.Event
	next := 0
	leave := func(until float64, before int32) {
		for ; next < len(s.leaving); next++ {
			e := s.leaving[next]
			if e.Time > until || e.Time == until && e.Request >= before {
				return
			}
			if n := len(events) - 1; n >= 0 && events[n].Kind == trace.Delete && events[n].Time == e.Time && events[n].Request == e.Request {
				events[n].Count++
				continue
			}
			events = append(events, e)
		}
	}
	for _, e := range s.trace.Events {
		e.Count = s.trace.Requests[e.Request].Count
		leave(e.Time, e.Request)
		events = append(events, e)
	}
	leave(math.Inf(1), 0)
	s.trace.Events = events
}
