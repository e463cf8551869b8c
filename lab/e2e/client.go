//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sigma-scheduler/sigma/lab/podspace"
)

// A Client sends requests to a Knative Service and acts as an ingress: it spreads them over the Revisions by the
// percentages of the Ingress, and within one over the activators if its Endpoints hold those, or else over the
// ready pods.
type Client struct {
	pods            *LivePods
	namespace, name string
	http            *http.Client // to pods
	proxied         http.Client  // to activators
	load            atomic.Pointer[clientLoad]

	mu      sync.Mutex
	due     Split // in percent of a request, by Revision
	tallies map[string]Tally
	lost    []string // errors of the first lost requests
}

type clientLoad struct {
	atOnce int
	period time.Duration
}

// A Tally counts the results of the requests to a Revision.
type Tally struct {
	Answered int
	Full     int // the function had no connection for them
	Cut      int // in an activator that was killed, or on their way to it
	Lost     int // for any other reason
}

// clientWaits is longer than any answer takes on a busy machine.
const clientWaits = 2 * time.Minute

// StartClient sends requests to a Service until the test ends; see [Client.Send].
func (p *LivePods) StartClient(t testing.TB, namespace, name string, atOnce int, period time.Duration) *Client {
	c := &Client{
		pods: p, namespace: namespace, name: name, due: Split{}, tallies: map[string]Tally{},
		http:    &http.Client{Transport: p.transport, Timeout: clientWaits},
		proxied: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1 << 10, DisableCompression: true}, Timeout: clientWaits},
	}
	c.Send(atOnce, period)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var sent sync.WaitGroup
	sent.Go(func() {
		for ctx.Err() == nil {
			next := *c.load.Load()
			for range next.atOnce {
				sent.Go(func() { c.send(context.WithoutCancel(ctx)) })
			}
			time.Sleep(next.period)
		}
	})
	t.Cleanup(func() {
		cancel()
		sent.Wait()
		c.proxied.CloseIdleConnections()
	})
	return c
}

// Send sets the number of requests sent at once, and the period to the next ones, which does not depend on
// the answers.
func (c *Client) Send(atOnce int, period time.Duration) { c.load.Store(&clientLoad{atOnce, period}) }

// send sends a request.
func (c *Client) send(ctx context.Context) {
	revision := c.choose()
	a := c.pods.k.activatorOf(c.namespace, revision)
	client, address := c.http, ""
	if a != nil {
		client, address = &c.proxied, fmt.Sprintf("127.0.0.1:%d", a.port)
	} else {
		d := c.pods.enter(c.namespace, revision)
		if d == nil {
			c.count(revision, Tally{Lost: 1}, "no pod is ready")
			return
		}
		defer c.pods.leave(d)
		address = fmt.Sprintf("%s:%d", d.ip, podspace.QueuePort)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address, nil)
	if err != nil {
		c.count(revision, Tally{Lost: 1}, err.Error())
		return
	}
	request.Header.Set("Knative-Serving-Namespace", c.namespace) // as the Ingress requires
	request.Header.Set("Knative-Serving-Revision", revision)
	response, err := client.Do(request)
	var said []byte
	if err == nil {
		said, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
	}
	switch {
	case err != nil && a != nil && a.killed.Load():
		c.count(revision, Tally{Cut: 1}, "")
	case err != nil:
		c.count(revision, Tally{Lost: 1}, err.Error())
	case response.StatusCode == http.StatusOK:
		c.count(revision, Tally{Answered: 1}, "")
	case response.Header.Get(fullHeader) != "":
		c.count(revision, Tally{Full: 1}, "")
	default:
		c.count(revision, Tally{Lost: 1}, fmt.Sprintf("%s: %.200s", response.Status, said))
	}
}

// choose takes the Revision that is due most.
func (c *Client) choose() (revision string) {
	split := c.pods.k.Split(c.namespace, c.name)
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, percent := range split {
		c.due[name] += percent
		if revision == "" || c.due[name] > c.due[revision] || c.due[name] == c.due[revision] && name < revision {
			revision = name
		}
	}
	c.due[revision] -= 100
	return revision
}

func (c *Client) count(revision string, one Tally, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.tallies[revision]
	c.tallies[revision] = Tally{all.Answered + one.Answered, all.Full + one.Full, all.Cut + one.Cut, all.Lost + one.Lost}
	if one.Lost > 0 && len(c.lost) < 20 {
		c.lost = append(c.lost, fmt.Sprintf("%s %s: %s", time.Now().Format(time.TimeOnly), revision, why))
	}
}

// Tallies are the results of the requests so far, by Revision.
func (c *Client) Tallies() map[string]Tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.tallies)
}

// Lost has the errors of the first lost requests, except those without a connection.
func (c *Client) Lost() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.lost...)
}
