// Mpavalidate compares mpa/loadsim with a real server: a net/http server whose processor the
// kernel limits, under requests that come when they are due. It prints the tables of
// docs/mpa-validation.md as Markdown.
//
//	go run ./hack/mpavalidate [-runs 5] [-seconds 10] [-app name]
//
// It needs Linux, two cores, and a cgroup file system and priorities that it may
// change. The server has the first core, what sends requests the second.
package main

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

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
	// A run with a request sent this late, in seconds, this share of a core stolen, or this
	// share of the server's core used by others is done again, if there was not too
	// much of that yet.
	mostLate, mostSteal, mostOthers = .025, .01, .15
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "mpavalidate:", err)
		os.Exit(1)
	}
}

// run is one of the program's parts: the first makes room for the one that measures,
// which starts servers.
func run() error {
	switch os.Getenv(partVar) {
	case "enter":
		if _, err := fmt.Scanln(new(string)); err != nil {
			return err
		}
		return become("serve", 0)
	case "serve":
		return serve()
	case "measure":
		runtime.GOMAXPROCS(4)
		return report()
	}
	group, err := newCgroup(cgroups, "load")
	if err != nil {
		return err
	}
	if err := errors.Join(group.set(0), group.add(os.Getpid())); err != nil {
		return err
	}
	return become("measure", 1)
}

func report() error {
	runs := flag.Int("runs", 5, "runs of each load")
	seconds := flag.Float64("seconds", 10, "length of a run")
	only := flag.String("app", "", "one of the applications; empty = all")
	flag.Parse()
	defer leave()
	addr, err := backend()
	if err != nil {
		return err
	}
	if err := os.Setenv(backendVar, addr); err != nil {
		return err
	}
	known := false
	for i, a := range apps {
		if *only != "" && *only != a.name {
			continue
		}
		known = true
		if err := a.report(rand.New(rand.NewPCG(1, uint64(i))), *runs, *seconds); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
	}
	if !known {
		return fmt.Errorf("no app %q", *only)
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

// simulate gives what the simulator says of the same requests.
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

func (a *app) report(rng *rand.Rand, runs int, seconds float64) error {
	s, err := start(a.quota)
	if err != nil {
		return err
	}
	err = a.compare(s, rng, runs, seconds)
	return s.stop(err)
}

func (a *app) compare(s *server, rng *rand.Rand, runs int, seconds float64) error {
	c, err := a.calibrate(s)
	if err != nil {
		return err
	}
	fmt.Printf("\n**%s**: %s; quota %g cores (%s), GOMAXPROCS %d. Calibrated: %.0f µs of cpu per request, %.0f µs when the server was idle, %.0f µs of network.\n\n",
		a.name, a.about, a.quota, s.group.kind, s.procs, 1e6*c.each, 1e6*c.wake, 1e6*c.floor)
	fmt.Println("| load | | p50 ms | p95 ms | p99 ms | p95 of each run |\n|---:|---|---:|---:|---:|---|")
	for _, load := range loads {
		var real, model, ratio [3][]float64
		again, marks := 0, []string(nil) // * = disturbed
		for done := 0; done < runs; {
			list := draws(rng, load*a.quota/(a.cpu.Mean+c.each), seconds, a.wait, a.cpu)
			r, err := s.measure(list, time.Second/2)
			if err != nil {
				return err
			}
			mark := ""
			if r.late > mostLate || r.steal > mostSteal || r.others > mostOthers {
				if again < 2*runs {
					again++
					continue
				}
				mark = "*"
			}
			done++
			marks = append(marks, mark)
			p50, p95, p99, err := a.simulate(list, c, s.procs, time.Second/2)
			if err != nil {
				return err
			}
			for i, v := range [][2]float64{{r.p50, p50}, {r.p95, p95}, {r.p99, p99}} {
				real[i], model[i], ratio[i] = append(real[i], v[0]), append(model[i], v[1]), append(ratio[i], v[1]/v[0])
			}
		}
		row := func(name, format string, unit float64, lists [3][]float64) {
			var each strings.Builder
			for i, v := range lists[1] {
				fmt.Fprintf(&each, " "+format+"%s", unit*v, marks[i])
			}
			fmt.Printf("| %.1f | %s |", load, name)
			for _, l := range lists {
				fmt.Printf(" "+format+" |", unit*median(l))
			}
			fmt.Printf("%s |\n", each.String())
		}
		row("measured", "%.1f", 1000, real)
		row("simulated", "%.1f", 1000, model)
		row("ratio", "%.2f", 1, ratio)
		if again > 0 {
			fmt.Fprintf(os.Stderr, "%s, load %g: %d disturbed runs were done again\n", a.name, load, again)
		}
	}
	return nil
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
