package simcheck

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/sigma-scheduler/sigma/lab/records"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
)

// An app is what requests ask of the server: to wait for another service, then to
// compute. Quota is in cores.
type app struct {
	name, about string
	wait, cpu   loadsim.Dist
	quota       float64
}

var apps = []app{
	{"constant", "4 ms of cpu, always", loadsim.Dist{}, loadsim.Dist{Mean: .004}, .4},
	{"exponential", "8 ms of cpu in the mean, exponential", loadsim.Dist{}, loadsim.Dist{Mean: .008, CV: 1}, .4},
	{"io", "a call to another service of 20 ms (lognormal, cv 0.5), then 4 ms of cpu (lognormal, cv 2)", loadsim.Dist{Mean: .02, CV: .5}, loadsim.Dist{Mean: .004, CV: 2}, .3},
}

// loads as shares of the quota.
var loads = []float64{.3, .5, .8}

const (
	// turnSeconds is how long a goroutine computes while others wait: the runtime looks every
	// 10 ms and stops one that it finds for the second time after 10 ms, which is
	// after 10 to 20.
	turnSeconds = .015
	// phases of the quota's periods that are simulated: that of the kernel is not known.
	phases = 20
	// A run is repeated, up to twice as often as runs are asked for, where a request was sent
	// this late, in seconds, or other machines took this share of a core, or other programs
	// this share of the server's core.
	mostLate, mostSteal, mostOthers = .025, .01, .15
)

// Part is what this process does where it was started as a part of a validation: the
// first makes room for the one that measures, which starts servers.
func Part(cfg Config, stdout io.Writer) error {
	switch part := os.Getenv(PartVar); part {
	case "load":
		group, err := newCgroup(cgroups, "load")
		if err != nil {
			return err
		}
		if err := errors.Join(group.set(0), group.add(os.Getpid())); err != nil {
			return err
		}
		return become("measure", 1)
	case "measure":
		runtime.GOMAXPROCS(4)
		return report(cfg, stdout)
	case "enter":
		if _, err := fmt.Scanln(new(string)); err != nil {
			return err
		}
		return become("serve", 0)
	case "serve":
		return underTest()
	default:
		return fmt.Errorf("%s=%q: want load, measure, enter or serve", PartVar, part)
	}
}

// report prints the table of each application.
func report(cfg Config, stdout io.Writer) error {
	defer leave()
	addr, err := backend()
	if err != nil {
		return err
	}
	if err := os.Setenv(backendVar, addr); err != nil {
		return err
	}
	for i, a := range apps {
		if cfg.App != "" && cfg.App != a.name {
			continue
		}
		text, err := a.report(rand.New(rand.NewPCG(1, uint64(i))), cfg)
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		if _, err := io.WriteString(stdout, text); err != nil {
			return err
		}
	}
	return nil
}

// A cost is what a request costs besides what it asks for, in seconds.
type cost struct {
	each  float64 // of cpu, when the server is busy
	wake  float64 // of cpu, more, when it was idle
	floor float64 // of the network and the client
}

// calibrate measures costs without a quota.
func (a *app) calibrate(s *server) (c cost, err error) {
	if err := s.group.set(0); err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, s.group.set(a.quota)) }()
	even := func(n int, gap float64, cpu float64) []draw {
		list := make([]draw, n)
		for i := range list {
			list[i] = draw{At: span(gap * float64(i)), CPU: span(cpu)}
			if a.wait.Mean > 0 {
				list[i].Wait = 1
			}
		}
		return list
	}
	if _, err = s.measure(even(100, .005, a.cpu.Mean), 0); err != nil { // to warm up
		return c, err
	}
	var busy, idle, empty []float64
	for range 3 {
		for _, m := range []struct {
			into *[]float64
			list []draw
		}{{&busy, even(150, 0, a.cpu.Mean)}, {&idle, even(40, .03, a.cpu.Mean)}, {&empty, even(40, .03, 0)}} {
			r, err := s.measure(m.list, 0)
			if err != nil {
				return c, err
			}
			*m.into = append(*m.into, r.cpu-m.list[0].CPU.Seconds())
			if m.into == &empty {
				empty[len(empty)-1] = r.p50 - r.cpu
			}
		}
	}
	c.each = max(0, slices.Min(busy))
	c.wake, c.floor = max(0, median(idle)-c.each), max(0, slices.Min(empty))
	return c, nil
}

// simulate returns the simulated percentiles of the same requests.
func (a *app) simulate(list []draw, c cost, procs int, skip time.Duration) (p50, p95, p99 float64, err error) {
	parts := 1
	if a.wait.Mean > 0 {
		parts = 2 // a part before the call, a part after it
	}
	model := loadsim.Service{
		Queue: -1, Parallelism: float64(procs), Quantum: turnSeconds, Wake: c.wake,
		Segments: make([]loadsim.Segment, parts),
	}
	requests := make([]loadsim.Request, len(list))
	for i, d := range list {
		r := loadsim.Request{At: d.At.Seconds()}
		r.Wait, r.CPU = []float64{c.floor, d.Wait.Seconds()}[:parts], []float64{c.each / float64(parts), c.each / float64(parts)}[:parts]
		r.CPU[parts-1] += d.CPU.Seconds()
		requests[i] = r
	}
	for i := range phases {
		took, err := loadsim.Serve(model, a.quota, requests, .1*float64(i)/phases)
		if err != nil {
			return 0, 0, 0, err
		}
		a, b, c := percentiles(took, list, skip)
		p50, p95, p99 = p50+a/phases, p95+b/phases, p99+c/phases
	}
	return p50, p95, p99, nil
}

// report measures an application and returns its table with a sentence above it.
func (a *app) report(rng *rand.Rand, cfg Config) (string, error) {
	s, err := start(a.quota, cfg.Now)
	if err != nil {
		return "", err
	}
	text, err := a.compare(s, rng, cfg)
	return text, s.stop(err)
}

func (a *app) compare(s *server, rng *rand.Rand, cfg Config) (string, error) {
	c, err := a.calibrate(s)
	if err != nil {
		return "", err
	}
	table := records.Table{Heads: []string{"load", "", "p50 ms", "p95 ms", "p99 ms", "p95 of each run"}, Right: []int{0, 2, 3, 4}}
	for _, load := range loads {
		p, err := a.pairs(s, rng, c, load, cfg)
		if err != nil {
			return "", err
		}
		table.Rows = append(table.Rows, p.rows(load)...)
	}
	return fmt.Sprintf("\n**%s**: %s; quota %g cores (%s), GOMAXPROCS %d. Calibrated: %.0f µs of cpu per request, %.0f µs when the server was idle, %.0f µs of network.\n\n%s",
		a.name, a.about, a.quota, s.group.kind, s.procs, 1e6*c.each, 1e6*c.wake, 1e6*c.floor, table.Markdown()), nil
}

// pairs are runs of one load, on the server and simulated: p50, p95 and p99 in seconds.
type pairs struct {
	real, model, ratio [3][]float64
	marks              []string // * = disturbed
}

// pairs measures and simulates runs of one load.
func (a *app) pairs(s *server, rng *rand.Rand, c cost, load float64, cfg Config) (*pairs, error) {
	p := &pairs{}
	again := 0
	for len(p.marks) < cfg.Runs {
		list := draws(rng, load*a.quota/(a.cpu.Mean+c.each), cfg.Seconds, a.wait, a.cpu)
		r, err := s.measure(list, time.Second/2)
		if err != nil {
			return nil, err
		}
		mark := ""
		if r.late > mostLate || r.steal > mostSteal || r.others > mostOthers {
			if again < 2*cfg.Runs {
				again++
				continue
			}
			mark = "*"
		}
		p.marks = append(p.marks, mark)
		p50, p95, p99, err := a.simulate(list, c, s.procs, time.Second/2)
		if err != nil {
			return nil, err
		}
		for i, v := range [][2]float64{{r.p50, p50}, {r.p95, p95}, {r.p99, p99}} {
			p.real[i], p.model[i], p.ratio[i] = append(p.real[i], v[0]), append(p.model[i], v[1]), append(p.ratio[i], v[1]/v[0])
		}
	}
	if again > 0 {
		fmt.Fprintf(os.Stderr, "%s, load %g: %d disturbed runs were repeated\n", a.name, load, again)
	}
	return p, nil
}

// rows of the table: medians, and the p95 of each run.
func (p *pairs) rows(load float64) (rows [][]string) {
	for _, l := range []struct {
		name, format string
		unit         float64
		lists        [3][]float64
	}{{"measured", "%.1f", 1000, p.real}, {"simulated", "%.1f", 1000, p.model}, {"ratio", "%.2f", 1, p.ratio}} {
		row := []string{fmt.Sprintf("%.1f", load), l.name}
		for _, values := range l.lists {
			row = append(row, fmt.Sprintf(l.format, l.unit*median(values)))
		}
		var each []string
		for i, v := range l.lists[1] {
			each = append(each, fmt.Sprintf(l.format, l.unit*v)+p.marks[i])
		}
		rows = append(rows, append(row, strings.Join(each, " ")))
	}
	return rows
}

func median(list []float64) float64 {
	l := slices.Sorted(slices.Values(list))
	return l[len(l)/2]
}

// percentiles of what took how long, of the requests from a time on.
func percentiles(took []float64, list []draw, skip time.Duration) (p50, p95, p99 float64) {
	first := slices.IndexFunc(list, func(d draw) bool { return d.At >= skip })
	counted := slices.Sorted(slices.Values(took[max(0, first):]))
	at := func(p float64) float64 { return counted[int(math.Ceil(p*float64(len(counted))))-1] }
	return at(.5), at(.95), at(.99)
}
