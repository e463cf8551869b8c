package convert

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

const (
	usageStep     = 300. // seconds between samples of both sets
	samplesOfADay = 288
)

// gwa is GWA-T-12 "rnd" of the Grid Workloads Archive (Bitbrains): virtual machines with the
// cpu and memory that they provision and use, every 5 minutes, in months of 31 days that begin at
// local midnight.
//
//	gwa_t12_rnd_vms.csv              vm,cores,provisioned_mhz,provisioned_memory_mib
//	gwa_t12_rnd_cpu_YYYY-MM.csv      vm, then values in units of 10 MHz; empty = no sample
//	gwa_t12_rnd_memory_YYYY-MM.csv   the same in units of 16 MiB
//
// cpu is in GHz. A virtual machine is an app with one item, which arrives with its first
// sample and stays. Memory is the hypervisor's active memory, less than resident. Virtual
// machines that provision nothing in the file, which has the state after the last month,
// provisioned at least their largest use before: that is their demand by request. Sizes
// take them as machines without a request.
var gwa = Format{
	Name: "gwa-t-12",
	Help: "gwa_t12_rnd_vms.csv, …_cpu_2013-07.csv, …_memory_2013-07.csv: virtual machines with what they used, as usage.csv.gz",
	options: func(flags *flag.FlagSet, o *Options) {
		flags.Float64Var(&o.NodeGHz, "node-ghz", 104, "cpu of a node, with 8 GiB for each 2.6 GHz")
	},
	convert: convertGWA,
}

// A usedSet is a trace in the making, with the series of each app by dimension; an app of
// -1 is left out.
type usedSet struct {
	trace  *trace.Trace
	files  map[string]any
	apps   map[string]int32
	series [][]*trace.Series
	start  float64
}

func newUsedSet(name, description string, dims []binpack.Dimension, capacity []int64, source map[string]any) *usedSet {
	s := &usedSet{files: map[string]any{}, apps: map[string]int32{}}
	source["files"] = s.files
	s.trace = &trace.Trace{
		Name: name, Description: description, Source: source, MeasureFrom: math.NaN(),
		Instance: &binpack.Instance{
			Types: []string{"node"}, Fleet: binpack.Open, Dimensions: dims,
			Machines: []binpack.MachineLine{{Name: "node", Count: binpack.Unlimited, Cost: 1, Capacity: capacity}},
		},
	}
	return s
}

func (s *usedSet) app(name string, demand []int64) {
	s.apps[name] = int32(len(s.trace.Instance.Apps))
	addApp(s.trace.Instance, name, demand)
	s.series = append(s.series, make([]*trace.Series, len(s.trace.Instance.Dimensions)))
}

// read adds the samples of a file that begin at a time.
func (s *usedSet) read(f input, dimension int, start, unit float64, prefix string, add func(name string) error) error {
	content, err := f.read()
	if err != nil {
		return err
	}
	s.files[f.name] = digest(content)
	return f.table(content, ',', func(fields []string) error {
		name := prefix + fields[0]
		app, ok := s.apps[name]
		if !ok {
			if err := add(name); err != nil {
				return err
			}
			app = s.apps[name]
		}
		if app < 0 {
			return nil // left out
		}
		one := s.series[app][dimension]
		if one == nil {
			one = &trace.Series{App: app, Dimension: int32(dimension), Start: s.start, Step: usageStep}
			s.series[app][dimension] = one
		}
		first := int(math.Round((start - s.start) / usageStep))
		if len(one.Values) > first {
			return fmt.Errorf("%s: given twice", name)
		}
		for len(one.Values) < first {
			one.Values = append(one.Values, float32(math.NaN()))
		}
		for i, text := range fields[1:] {
			v := math.NaN()
			if text != "" {
				if v, err = strconv.ParseFloat(text, 64); err != nil || !(v >= 0 && v < 1e9) {
					return fmt.Errorf("value %d %q: not an amount", i+1, text)
				}
			}
			one.Values = append(one.Values, float32(v*unit))
		}
		return nil
	})
}

// finish lets each app arrive with its first sample of cpu. Apps without one are left out
// of the events.
func (s *usedSet) finish() error {
	u := &trace.Usage{}
	type arrival struct {
		at  float64
		app int32
	}
	var list []arrival
	for a, series := range s.series {
		for d, one := range series {
			if one == nil {
				continue
			}
			u.Series = append(u.Series, *one)
			first := slices.IndexFunc(one.Values, func(v float32) bool { return v == v })
			if d == 0 && first >= 0 {
				// From the midnight before, so that those of one day arrive together.
				list = append(list, arrival{one.Start + 86400*math.Floor(float64(first)/samplesOfADay), int32(a)})
			}
		}
	}
	if len(list) == 0 {
		return errors.New("no sample of cpu")
	}
	slices.SortStableFunc(list, func(a, b arrival) int { return int(a.at - b.at) })
	for _, one := range list {
		arrive(s.trace, one.at, one.app, 1)
	}
	s.trace.SetUsage(u)
	return nil
}

var gwaMonth = regexp.MustCompile(`_(cpu|memory)_(\d{4}-\d\d)\.csv$`)

// A monthFile has the samples of a dimension in a month.
type monthFile struct {
	input
	dimension int
	month     time.Time
	start     float64
}

// monthsOf are the files of months, the earliest first.
func monthsOf(in inputs) (files []monthFile, err error) {
	for _, f := range in {
		m := gwaMonth.FindStringSubmatch(f.name)
		if m == nil {
			continue
		}
		one := monthFile{input: f, dimension: slices.Index([]string{"cpu", "memory"}, m[1])}
		if one.month, err = time.Parse("2006-01", m[2]); err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
		one.start = float64(one.month.Unix())
		files = append(files, one)
	}
	if len(files) == 0 {
		return nil, errors.New("no file is named like gwa_t12_rnd_cpu_2013-07.csv")
	}
	slices.SortStableFunc(files, func(a, b monthFile) int { return a.month.Compare(b.month) })
	return files, nil
}

// warnOfMonths names the months between the first and the last that lack a file.
func warnOfMonths(files []monthFile, opt Options) {
	last := files[len(files)-1].month
	for month := files[0].month; !month.After(last); month = month.AddDate(0, 1, 0) {
		var has [2]bool
		for _, f := range files {
			if f.month.Equal(month) {
				has[f.dimension] = true
			}
		}
		switch name := month.Format("2006-01"); {
		case has == [2]bool{}:
			opt.warnf("no file has %s, between months that have one: nothing is judged or fitted there", name)
		case !has[0]:
			opt.warnf("%s has memory without cpu", name)
		case !has[1]:
			opt.warnf("%s has cpu without memory", name)
		}
	}
}

func convertGWA(in inputs, opt Options, emit Emit) error {
	const gib = 1 << 30
	if !(opt.NodeGHz >= 1 && opt.NodeGHz <= 1e6) {
		return fmt.Errorf("a node of %v GHz: want 1 to 10⁶", opt.NodeGHz)
	}
	dims := []binpack.Dimension{{Name: "cpu", Unit: "m", One: 1000}, {Name: "memory", One: 1}}
	capacity := []int64{int64(math.Round(1000 * opt.NodeGHz)), int64(math.Floor(opt.NodeGHz/2.6*8)) * gib}
	s := newUsedSet("gwa-t-12-rnd", "GWA-T-12 Bitbrains, rnd", dims, capacity, map[string]any{
		"origin": "gwa-t-12", "parameters": map[string]any{"node": opt.NodeGHz},
		"method": "cpu in GHz; memory is active memory; time in seconds since 1970 of the local clock",
	})
	vms, err := in.one("rnd_vms.csv")
	if err != nil {
		return err
	}
	content, err := vms.read()
	if err != nil {
		return err
	}
	s.files[vms.name] = digest(content)
	columns := []string{"vm", "provisioned_mhz", "provisioned_memory_mib"}
	without := map[string]any{}
	err = vms.named(content, ',', columns, 0, func(fields []string) error {
		var n [2]int64
		if err := readCounts(columns[1:], fields[1:], n[:]); err != nil {
			return err
		}
		if n[0] == 0 {
			opt.warnf("vm-%s provisions nothing in the file: by request it counts at its largest use", fields[0])
			without["vm-"+fields[0]] = []any{"0", "0"}
		}
		if n[0] > capacity[0] || n[1]<<20 > capacity[1] {
			opt.warnf("vm-%s asks for more than a node has, and counts as much as a node", fields[0])
		}
		s.app("vm-"+fields[0], []int64{min(n[0], capacity[0]), min(n[1]<<20, capacity[1])})
		return nil
	})
	if err != nil {
		return err
	}
	files, err := monthsOf(in)
	if err != nil {
		return err
	}
	s.start = files[0].start
	warnOfMonths(files, opt)
	for _, f := range files {
		unknown := func(name string) error { return fmt.Errorf("%s is not in %s", name, vms.name) }
		if err := s.read(f.input, f.dimension, f.start, []float64{.01, 16 << 20}[f.dimension], "vm-", unknown); err != nil {
			return err
		}
	}
	for name := range without {
		app := &s.trace.Instance.Apps[s.apps[name]]
		for d, one := range s.series[s.apps[name]] {
			if one != nil {
				app.Demand[d] = min(capacity[d], largestOf(one, dims[d].One))
			}
		}
	}
	if len(without) > 0 {
		s.trace.Source["withoutRequest"] = without
	}
	if err := s.finish(); err != nil {
		return err
	}
	return emit(s.trace, 1)
}

// largestOf is the largest value of a series, in units, rounded up.
func largestOf(s *trace.Series, one int64) (most int64) {
	for _, v := range s.Values {
		if v == v {
			most = max(most, int64(math.Ceil(float64(v)*float64(one)-1e-3)))
		}
	}
	return most
}

// planetlab are days of slices of PlanetLab by CoMon, as CloudSim ships them: a slice a
// line, with cpu in % of a core every 5 minutes. The days are not consecutive; here they
// follow one another. Slices have no request, so each counts as one core. Those of fewer
// than 2 of the first five days, or of none of the others, are left out.
//
//	planetlab_cpu_YYYYMMDD.csv   name, then 288 values
var planetlab = Format{
	Name: "planetlab",
	Help: "planetlab_cpu_20110303.csv, …: days of slices with the cpu that they used, as usage.csv.gz",
	options: func(flags *flag.FlagSet, o *Options) {
		flags.Float64Var(&o.NodeCores, "node-cores", 8, "cores of a node")
	},
	convert: convertPlanetLab,
}

const (
	planetlabFit  = 5 // days
	planetlabSeen = 2 // of them
)

func convertPlanetLab(in inputs, opt Options, emit Emit) error {
	if !(opt.NodeCores >= 1 && opt.NodeCores <= 1e6) {
		return fmt.Errorf("a node of %v cores: want 1 to 10⁶", opt.NodeCores)
	}
	days := slices.DeleteFunc(slices.Clone(in), func(f input) bool { return !strings.HasPrefix(f.name, "planetlab_cpu_") })
	if len(days) <= planetlabFit {
		return fmt.Errorf("%d files are named like planetlab_cpu_20110303.csv: want more than %d", len(days), planetlabFit)
	}
	fit, later := map[string]int{}, map[string]bool{}
	for i, f := range days {
		content, err := f.read()
		if err != nil {
			return err
		}
		err = f.table(content, ',', func(fields []string) error {
			if len(fields) != 1+samplesOfADay {
				return fmt.Errorf("%d fields, want a name and %d values", len(fields), samplesOfADay)
			}
			if i < planetlabFit {
				fit[strings.Clone(fields[0])]++
			} else {
				later[strings.Clone(fields[0])] = true
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	dims := []binpack.Dimension{{Name: "cpu", Unit: "m", One: 1000}}
	s := newUsedSet("planetlab", "PlanetLab slices, 2011", dims, []int64{int64(math.Round(1000 * opt.NodeCores))}, map[string]any{
		"origin": "planetlab", "parameters": map[string]any{"node": opt.NodeCores},
		"method": "one core a slice as its request; days one after the other; slices of at least 2 of the first five days and a later one",
	})
	left := map[string]bool{}
	for i, f := range days {
		kept := f
		kept.content = nil
		content, err := f.read()
		if err != nil {
			return err
		}
		var b strings.Builder
		for line := range strings.Lines(string(content)) {
			name, _, _ := strings.Cut(line, ",")
			if fit[name] >= planetlabSeen && later[name] {
				b.WriteString(line)
			} else {
				left[name] = true
				b.WriteString("\n")
			}
		}
		kept.content = []byte(b.String())
		add := func(name string) error { s.app(name, []int64{1000}); return nil }
		if err := s.read(kept, 0, float64(i)*86400, .01, "", add); err != nil {
			return err
		}
		s.files[f.name] = digest(content)
	}
	opt.warnf("%d slices left out: of fewer than %d of the first %d days, or of no later one", len(left), planetlabSeen, planetlabFit)
	for i := range s.trace.Instance.Apps { // all are there from the beginning
		s.series[i][0].Values = pad(s.series[i][0].Values, len(days)*samplesOfADay)
	}
	u := &trace.Usage{}
	for a, series := range s.series {
		u.Series = append(u.Series, *series[0])
		arrive(s.trace, 0, int32(a), 1)
	}
	s.trace.SetUsage(u)
	return emit(s.trace, 1)
}

func pad(values []float32, n int) []float32 {
	for len(values) < n {
		values = append(values, float32(math.NaN()))
	}
	return values
}
