package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sigma-scheduler/sigma/lab/podspace"
	"github.com/sigma-scheduler/sigma/mpa/capacity"
)

const (
	gateAddress  = "127.0.0.1:8081"
	adminAddress = "127.0.0.1:9901"
)

// python returns the interpreter of the threaded server.
func python() (string, error) { return exec.LookPath("python3") }

// A pod is a function in its cgroup, in a network namespace of its own, behind a gate or queue-proxy.
type pod struct {
	profile *profile
	name    string
	group   *podspace.Cgroup
	space   *podspace.Space
	client  *http.Client
	fronts  []*exec.Cmd // gate, queue-proxy
	loads   []*load
	ended   sync.WaitGroup
	dead    chan struct{} // closed when the function has ended, which then is not started again; nil = it is

	mu       sync.Mutex
	function *exec.Cmd
	stdin    io.Closer
	stopped  bool
	restarts int
	failed   error // of a restart
}

var made atomic.Int64

// startPod starts a function and a gate, the program at a path, with a limit.
func startPod(ctx context.Context, gate string, p *profile, limit int) (*pod, error) {
	d, err := newPod(ctx, p, nil)
	if err != nil {
		return nil, err
	}
	if err := d.startGate(ctx, gate, limit); err != nil {
		return nil, d.stop(fmt.Errorf("%s: %w", p.name, err))
	}
	return d, nil
}

// newPod starts a function. With a channel it is started once, and the channel is closed when it has ended.
func newPod(ctx context.Context, p *profile, dead chan struct{}) (_ *pod, err error) {
	d := &pod{profile: p, dead: dead, name: fmt.Sprintf("sigma-concurrency-%d-%d", os.Getpid(), made.Add(1))}
	defer func() {
		if err != nil {
			err = d.stop(fmt.Errorf("%s: %w", p.name, err))
		}
	}()
	if d.space, err = podspace.New(); err != nil {
		return nil, err
	}
	if d.group, err = podspace.NewCgroup(podspace.CgroupRoot, d.name, cores, memoryBytes); err != nil {
		return nil, err
	}
	d.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1 << 12, DisableCompression: true, DialContext: d.space.DialContext}}
	if err := d.startFunction(); err != nil {
		return nil, err
	}
	d.ended.Go(d.watch)
	if err := d.space.Await(ctx, "http://"+functionAddress+emptyPath, nil); err != nil {
		return nil, fmt.Errorf("the function: %w", err)
	}
	return d, nil
}

// front starts a program in front of the function, and waits until an address answers.
func (d *pod) front(ctx context.Context, cmd *exec.Cmd, url string) error {
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := d.space.Start(cmd); err != nil {
		return err
	}
	d.fronts = append(d.fronts, cmd)
	if err := d.space.Await(ctx, url, nil); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, said.String())
	}
	return nil
}

func (d *pod) startGate(ctx context.Context, program string, limit int) error {
	return d.front(ctx, exec.Command(program, "--target=http://"+functionAddress, "--listen="+gateAddress, "--admin="+adminAddress, "--metrics=",
		"--limit="+strconv.Itoa(limit), "--wait=1m", "--cgroup="+d.name), "http://"+adminAddress+"/limit")
}

// startFunction starts the function's process.
func (d *pod) startFunction() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	program, args := self, []string{"function", d.profile.name}
	if d.profile.threads {
		if program, err = python(); err != nil {
			return err
		}
		_, port, _ := strings.Cut(functionAddress, ":")
		args = []string{"-c", threadsPy, port, fmt.Sprint(d.profile.wait.Seconds()), fmt.Sprint(d.profile.cpu.Seconds())}
	}
	env := append(os.Environ(), asFunction+"=1")
	if d.profile.goMemLimit != "" {
		env = append(env, "GOMEMLIMIT="+d.profile.goMemLimit)
	}
	d.function, d.stdin, err = d.space.StartIn(d.group, env, nil, os.Stderr, program, args...)
	return err
}

// watch starts a function that has ended again, as a kubelet does.
func (d *pod) watch() {
	for {
		_ = d.function.Wait()
		if d.dead != nil {
			close(d.dead)
			return
		}
		d.mu.Lock()
		if d.stopped {
			d.mu.Unlock()
			return
		}
		d.restarts++
		err := d.startFunction()
		if err != nil {
			d.failed = err
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
	}
}

func (d *pod) ask(ctx context.Context, method, url, body string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := d.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s: %s: %s", url, response.Status, bytes.TrimSpace(text))
	}
	return text, err
}

func (d *pod) setLimit(ctx context.Context, n int) error {
	_, err := d.ask(ctx, http.MethodPut, "http://"+adminAddress+"/limit", strconv.Itoa(n))
	return err
}

// window measures at the gate.
func (d *pod) window(ctx context.Context, length time.Duration) (w capacity.Window, err error) {
	text, err := d.ask(ctx, http.MethodGet, fmt.Sprintf("http://%s/window?seconds=%g", adminAddress, length.Seconds()), "")
	if err == nil {
		err = json.Unmarshal(text, &w)
	}
	return w, err
}

// ends returns how often the function has ended by itself, and how often for lack of memory.
func (d *pod) ends() (restarts, kills int, err error) {
	kills, err = d.group.Kills()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.restarts, kills, errors.Join(err, d.failed)
}

// clients in closed loop: more than the largest limit, and fewer than the gate lets wait.
const clients = 400

// load starts clients that keep the gate full until the pod is stopped.
func (d *pod) load(clients int) { d.loads = append(d.loads, startLoad(d, clients, "/")) }

// stop ends gate, function and clients, and removes their cgroup and namespace. It returns the error
// that the pod was stopped for, if any.
func (d *pod) stop(err error) error {
	d.mu.Lock()
	d.stopped = true
	if d.function != nil {
		_ = d.stdin.Close()
		_ = d.function.Process.Signal(unix.SIGKILL)
	}
	d.mu.Unlock()
	d.ended.Wait()
	for _, front := range d.fronts {
		_ = front.Process.Kill()
		_ = front.Wait()
	}
	for _, l := range d.loads {
		l.stop()
	}
	if d.client != nil {
		d.client.CloseIdleConnections()
	}
	if d.group != nil {
		err = errors.Join(err, d.group.Remove())
	}
	if d.space != nil {
		err = errors.Join(err, d.space.Close())
	}
	return err
}
