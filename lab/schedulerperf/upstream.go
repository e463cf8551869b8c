package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// perfResult is scheduler_perf's result for one profile.
type perfResult struct {
	podsPerSecond float64
	attempt       latency // a pod's scheduling, binding included
	latency       map[string]latency
}

// perf runs scheduler_perf on one profile.
func (b *bench) perf(ctx context.Context, nodes int, p profile) (r perfResult, err error) {
	dir, err := os.MkdirTemp(b.work, "perf-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	command := exec.CommandContext(ctx, b.upstream, "-test.run=^$", "-test.benchtime=1ns", "-test.timeout=30m",
		fmt.Sprintf("-test.bench=^BenchmarkPerfScheduling$/^%s$/^%dNodes$", p.name, nodes), "-data-items-dir="+dir)
	command.Dir = "upstream"
	command.Env = append(os.Environ(), "ARTIFACTS="+dir, // where its log goes
		"PATH="+b.programs+string(os.PathListSeparator)+os.Getenv("PATH")) // etcd
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if output, err := command.CombinedOutput(); err != nil {
		return r, fmt.Errorf("scheduler_perf: %w\n%s", err, output[max(0, len(output)-4000):])
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 1 {
		return r, fmt.Errorf("scheduler_perf wrote %d results: %w", len(files), err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		return r, err
	}
	return readPerf(content)
}

// readPerf reads a file of scheduler_perf's data items. Durations are milliseconds.
func readPerf(content []byte) (perfResult, error) {
	var read struct {
		DataItems []struct {
			Data   struct{ Average, Perc50, Perc99 float64 }
			Labels map[string]string
		}
	}
	if err := json.Unmarshal(content, &read); err != nil {
		return perfResult{}, err
	}
	r := perfResult{latency: make(map[string]latency)}
	for _, item := range read.DataItems {
		l := latency{p50: item.Data.Perc50, p99: item.Data.Perc99}
		switch item.Labels["Metric"] {
		case "SchedulingThroughput":
			r.podsPerSecond = item.Data.Average
		case "scheduler_scheduling_attempt_duration_seconds":
			r.attempt = l
		case "scheduler_framework_extension_point_duration_seconds":
			r.latency[item.Labels["extension_point"]] = l
		}
	}
	if len(r.latency) != len(extensionPoints) {
		return r, fmt.Errorf("scheduler_perf measured the extension points %v, want %v", r.latency, extensionPoints)
	}
	return r, nil
}
