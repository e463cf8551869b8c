package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"github.com/sigma-scheduler/sigma/internal/cputime"
)

const (
	frontLimit   = 10   // requests at once, of both
	frontSeconds = 3    // of a round
	metricsPort  = 9902 // of the gate
)

// frontRates are requests a second.
var frontRates = []int{200, 1000}

// A frontCost is the cost of the gate and of queue-proxy in one round, one after the other before the same function.
type frontCost struct {
	Rate  int     `json:"rate"`
	Gate  float64 `json:"gate"`  // seconds of cpu a request
	Queue float64 `json:"queue"` // the same
}

// measureFronts starts a function that does nothing, and before it a gate and queue-proxy, which take turns. The first
// round of each rate does not count.
func measureFronts(ctx context.Context, gate, program string, rounds int) (list []frontCost, err error) {
	list = []frontCost{}
	profiles, err := named([]string{"cpu"})
	if err != nil {
		return nil, err
	}
	d, err := newPod(ctx, profiles[0], nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = d.stop(err) }()
	if err := d.group.SetQuota(0); err != nil {
		return nil, err
	}
	if err := d.startQueue(ctx, program, frontLimit); err != nil {
		return nil, err
	}
	cmd := exec.Command(gate, "--target=http://"+functionAddress, "--listen="+gateAddress, "--admin="+adminAddress, "--metrics=:"+strconv.Itoa(metricsPort), "--limit="+strconv.Itoa(frontLimit))
	if err := d.front(ctx, cmd, "http://"+gateAddress+emptyPath); err != nil {
		return nil, err
	}
	for _, rate := range frontRates {
		for round := range rounds + 1 {
			c := frontCost{Rate: rate}
			measure := []func() error{
				func() (err error) { c.Gate, err = d.through(ctx, d.fronts[1], gateAddress, rate); return err },
				func() (err error) { c.Queue, err = d.through(ctx, d.fronts[0], queueAddress, rate); return err },
			}
			first := round % 2
			if err := errors.Join(measure[first](), measure[1-first]()); err != nil {
				return nil, err
			}
			if round > 0 {
				list = append(list, c)
			}
		}
	}
	return list, nil
}

// through sends requests through a process and returns its seconds of cpu a request.
func (d *pod) through(ctx context.Context, front *exec.Cmd, address string, rate int) (float64, error) {
	before, err := cputime.Of(front.Process.Pid)
	if err != nil {
		return 0, err
	}
	attacker := vegeta.NewAttacker(vegeta.Client(d.client), vegeta.Workers(frontLimit), vegeta.MaxWorkers(1000))
	defer context.AfterFunc(ctx, func() { attacker.Stop() })()
	requests := 0
	target := vegeta.NewStaticTargeter(vegeta.Target{Method: http.MethodGet, URL: "http://" + address + emptyPath})
	for x := range attacker.Attack(target, vegeta.Rate{Freq: rate, Per: time.Second}, frontSeconds*time.Second, "") {
		if requests++; x.Code != http.StatusOK && err == nil {
			err = fmt.Errorf("%s: %d %s", address, x.Code, x.Error)
		}
	}
	after, cpu := cputime.Of(front.Process.Pid)
	if err := errors.Join(err, cpu, ctx.Err()); err != nil {
		return 0, err
	}
	return (after - before) / float64(requests), nil
}
