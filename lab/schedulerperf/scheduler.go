package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/internal/cputime"
)

// The lease that schedulers must hold before they schedule.
const (
	leaseNamespace = "kube-system"
	leaseName      = "kube-scheduler"
)

// scheduler is a scheduler process.
type scheduler struct {
	command *exec.Cmd
	url     string
	client  *http.Client
	log     string
}

// startScheduler starts the program with a configuration file and what a
// measurement needs on top: access, no limit on requests, leader election. It
// returns when the caches are full; as long as another one holds the lease, the
// scheduler then waits.
func startScheduler(ctx context.Context, program, config, kubeconfig, dir string) (*scheduler, error) {
	content, err := os.ReadFile(config)
	if err != nil {
		return nil, err
	}
	var settings map[string]any
	if err := yaml.UnmarshalStrict(content, &settings); err != nil {
		return nil, fmt.Errorf("%s: %w", config, err)
	}
	settings["clientConnection"] = map[string]any{"kubeconfig": kubeconfig, "qps": 5000, "burst": 5000}
	settings["leaderElection"] = map[string]any{
		"leaderElect": true, "resourceNamespace": leaseNamespace, "resourceName": leaseName,
	}
	if content, err = yaml.Marshal(settings); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "scheduler.yaml")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return nil, err
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := listener.Addr().(*net.TCPAddr)
	if err := listener.Close(); err != nil {
		return nil, err
	}
	s := &scheduler{
		url: "https://" + address.String(),
		// It signs its own certificate at its start.
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}},
		log:    filepath.Join(dir, "scheduler.log"),
	}
	out, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the child has its own
	s.command = exec.Command(program, "--config="+file,
		"--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(address.Port), "--cert-dir="+dir,
		"--authorization-always-allow-paths=/readyz,/metrics,/configz")
	s.command.Stdout, s.command.Stderr = out, out
	s.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := s.command.Start(); err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		s.stop()
		return nil, fmt.Errorf("%w\n%s", err, s.tail())
	}
	return s, nil
}

func (s *scheduler) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		_, err := s.read(ctx, "/readyz")
		if err == nil {
			return nil
		}
		if _, dead := s.cpu(); dead != nil {
			return fmt.Errorf("the scheduler ended: %w", dead)
		}
		if !pause(ctx, 100*time.Millisecond) {
			return fmt.Errorf("the scheduler did not become ready: %w", err)
		}
	}
}

// read returns what the scheduler answers at a path.
func (s *scheduler) read(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, response.Status)
	}
	return body, err
}

// cpu returns the CPU seconds of the process.
func (s *scheduler) cpu() (float64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The name in parentheses may hold anything; state is the first field after it.
	if _, state, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " "); strings.HasPrefix(state, "Z") {
		return 0, errors.New("no such process any more")
	}
	return cputime.Of(s.command.Process.Pid)
}

// idle waits until the process has nothing left to do and returns its CPU seconds.
func (s *scheduler) idle(ctx context.Context) (float64, error) {
	last, err := s.cpu()
	for quiet := 0; err == nil && quiet < 2; {
		if !pause(ctx, 200*time.Millisecond) {
			return 0, fmt.Errorf("the scheduler did not become idle: %w", context.Cause(ctx))
		}
		var now float64
		if now, err = s.cpu(); now-last <= .01 {
			quiet++
		} else {
			quiet = 0
		}
		last = now
	}
	return last, err
}

func (s *scheduler) stop() {
	_ = s.command.Process.Kill() // it has nothing to save
	_ = s.command.Wait()
	s.client.CloseIdleConnections()
}

// tail returns the end of the scheduler's log.
func (s *scheduler) tail() string {
	content, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-4000):])
}

// pause returns false when the context ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
