package simcheck

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sigma-scheduler/sigma/mpa/loadsim"
)

// A server is a process that runs [serve].
type server struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	group *cgroup
	url   string
	procs int
	now   func() time.Time
}

// start runs a server with a quota on the first core.
func start(quota float64, now func() time.Time) (*server, error) {
	group, err := newCgroup(cgroups, "server")
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &server{group: group, cmd: exec.Command(self, "records", "validate"), now: now}
	s.cmd.Env = append(os.Environ(), PartVar+"=enter")
	s.cmd.Stderr = os.Stderr
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	if err := errors.Join(group.set(quota), group.add(s.cmd.Process.Pid)); err != nil {
		return nil, s.stop(err)
	}
	// The Go runtime looks at its quota when it starts: the server begins after this.
	fmt.Fprintln(s.stdin, "go")
	var addr string
	if _, err := fmt.Fscanln(stdout, &addr, &s.procs); err != nil {
		return nil, s.stop(fmt.Errorf("the server did not start: %w", err))
	}
	s.url = "http://" + addr
	return s, nil
}

// become replaces this process by one of its parts, on one core and with the highest
// priority there, which all its threads inherit.
func become(part string, core int) error {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(core)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("core %d: %w", core, err)
	}
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL, Nice: -20}
	if err := unix.SchedSetAttr(0, &attr, 0); err != nil {
		return fmt.Errorf("priority: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Setenv(PartVar, part); err != nil {
		return err
	}
	return unix.Exec(self, os.Args, os.Environ())
}

// stop ends the server and returns the error that it was stopped for, if any.
func (s *server) stop(err error) error {
	_ = s.stdin.Close()
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	for range 50 { // the kernel needs a moment
		if s.group.remove() == nil {
			return err
		}
		ts := unix.NsecToTimespec(int64(10 * time.Millisecond))
		_ = unix.Nanosleep(&ts, nil)
	}
	return errors.Join(err, s.group.remove())
}

// A draw is one request: when it comes after the start of the run and what it does.
type draw struct{ At, Wait, CPU time.Duration }

// draws are requests of a Poisson process.
func draws(rng *rand.Rand, rate, seconds float64, wait, cpu loadsim.Dist) []draw {
	var list []draw
	for t := rng.ExpFloat64() / rate; t < seconds; t += rng.ExpFloat64() / rate {
		list = append(list, draw{At: span(t), Wait: span(amount(rng, wait)), CPU: span(amount(rng, cpu))})
	}
	return list
}

func span(seconds float64) time.Duration { return time.Duration(seconds * 1e9) }

// amount draws from a distribution, by arithmetic other than the simulator's.
func amount(rng *rand.Rand, d loadsim.Dist) float64 {
	switch d.CV {
	case 0:
		return d.Mean
	case 1:
		return -d.Mean * math.Log(1-rng.Float64())
	}
	s2 := math.Log1p(d.CV * d.CV)
	return d.Mean * math.Exp(math.Sqrt(s2)*rng.NormFloat64()-s2/2)
}

// A result is what was measured of a server under requests.
type result struct {
	p50, p95, p99 float64 // seconds from the intended start to the end of the answer
	cpu           float64 // core-seconds per request
	late          float64 // largest delay of a sending, in seconds
	steal         float64 // cores that other machines took
	others        float64 // share of the server's core that others had
}

var client = &http.Client{Transport: &http.Transport{MaxIdleConns: 1 << 14, MaxIdleConnsPerHost: 1 << 14, DisableCompression: true}}

func (s *server) ask(path string) ([]byte, error) {
	resp, err := client.Get(s.url + path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, resp.Status, text)
	}
	return text, err
}

func (s *server) spent() (float64, error) {
	text, err := s.ask("/spent")
	if err != nil {
		return 0, err
	}
	var nanos int64
	err = json.Unmarshal(text, &nanos)
	return float64(nanos) / 1e9, err
}

// measure sends requests when they are due, whether or not earlier ones are answered.
// Requests due before skip do not count.
func (s *server) measure(list []draw, skip time.Duration) (result, error) {
	runtime.GC()
	before, err := s.spent()
	if err != nil {
		return result{}, err
	}
	busy, stolen := machine()
	took, late, errs := make([]float64, len(list)), make([]float64, len(list)), make([]error, len(list))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var wg sync.WaitGroup
	begin := s.now()
	for i, d := range list {
		for left := d.At - s.now().Sub(begin); left > 0; left = d.At - s.now().Sub(begin) { // signals end a sleep early
			ts := unix.NsecToTimespec(int64(left))
			_ = unix.Nanosleep(&ts, nil)
		}
		wg.Go(func() {
			late[i] = (s.now().Sub(begin) - d.At).Seconds()
			_, errs[i] = s.ask("/work?wait=" + strconv.FormatInt(int64(d.Wait), 10) + "&cpu=" + strconv.FormatInt(int64(d.CPU), 10))
			took[i] = (s.now().Sub(begin) - d.At).Seconds()
		})
	}
	wg.Wait()
	wall := s.now().Sub(begin).Seconds()
	after, err := s.spent()
	if err := errors.Join(append(errs, err)...); err != nil {
		return result{}, err
	}
	busyAfter, stolenAfter := machine()
	r := result{
		cpu: (after - before) / float64(len(list)), late: slices.Max(late), steal: (stolenAfter - stolen) / wall,
		others: (busyAfter - busy - (after - before)) / wall,
	}
	r.p50, r.p95, r.p99 = percentiles(took, list, skip)
	return r, nil
}

// machine returns how long, in seconds, the first core was busy, and how long all cores
// together served other machines.
func machine() (busy, steal float64) {
	text, _ := os.ReadFile("/proc/stat")
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 9 || f[0] != "cpu" && f[0] != "cpu0" {
			continue
		}
		ticks := func(i int) float64 { v, _ := strconv.ParseFloat(f[i], 64); return v / 100 }
		if f[0] == "cpu" {
			steal = ticks(8)
		} else {
			busy = ticks(1) + ticks(2) + ticks(3) + ticks(6) + ticks(7)
		}
	}
	return busy, steal
}

func hasWord(text, word string) bool { return slices.Contains(strings.Fields(text), word) }
