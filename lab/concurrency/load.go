package main

import (
	"net/http"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// A load is clients in closed loop before a gate: each sends its next request when its last
// one has ended.
type load struct {
	attacker *vegeta.Attacker
	counts   chan map[uint16]int
}

// startLoad starts so many clients, which request a path.
func startLoad(d *pod, clients int, path string) *load {
	c := *d.client
	c.Transport = calm{c.Transport}
	l := &load{
		attacker: vegeta.NewAttacker(vegeta.Client(&c), vegeta.Workers(uint64(clients)), vegeta.MaxWorkers(uint64(clients))),
		counts:   make(chan map[uint16]int, 1),
	}
	target := vegeta.NewStaticTargeter(vegeta.Target{Method: http.MethodGet, URL: "http://" + gateAddress + path})
	results := l.attacker.Attack(target, vegeta.Rate{}, 0, "") // no rate: as soon as a client is free
	go func() {
		counts := map[uint16]int{}
		for r := range results {
			counts[r.Code]++
		}
		l.counts <- counts
	}()
	return l
}

// stop ends the clients. It returns how many answers of each status there were; 0 = no answer.
// Before that, the requests inside the gate have to end, or the gate.
func (l *load) stop() map[uint16]int {
	l.attacker.Stop()
	return <-l.counts
}

// calm lets a client pause after a failure: else a closed loop before a function that is
// down is a storm.
type calm struct{ next http.RoundTripper }

const pause = 100 * time.Millisecond

func (c calm) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(r)
	if err != nil || response.StatusCode >= http.StatusInternalServerError {
		<-time.NewTimer(pause).C
	}
	return response, err
}
