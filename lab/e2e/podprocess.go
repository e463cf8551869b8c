//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/lab/podspace"
	"github.com/sigma-scheduler/sigma/mpa/gate"
)

// LivePods are the pods of Knative Services as processes: in a network namespace of its own each has
// a function, in a cgroup with the container's limits, and Knative's queue-proxy with the environment
// that Knative's controller gave it.
type LivePods struct {
	k         *Knative
	proxy     http.Handler     // to a pod by its address
	discovery *httptest.Server // the pods for Prometheus' http_sd_configs, with the labels of a PodMonitor
	queue     string           // the program
	function  func(*v1.Pod) Function
	transport *http.Transport
	made      atomic.Int64
	logs      string // folder

	mu   sync.Mutex
	pods map[types.UID]*podProcess
	turn map[string]int // by Revision
	done bool           // the test has ended: no pod starts
	busy sync.WaitGroup // calls of Start and Stop
}

// A podProcess is a pod that runs.
type podProcess struct {
	pod       *v1.Pod
	ip        string
	space     *podspace.Space
	groups    map[string]*podspace.Cgroup // by container
	usage     map[string]func() (gate.Usage, error)
	ready     bool // it takes requests
	inside    int  // requests of the client
	cpu       map[string]float64
	measured  time.Time
	processes []*exec.Cmd
	stop      func() error
}

const userContainer, queueContainer, cgroupPrefix = "user-container", "queue-proxy", "sigma-e2e-"

// revisionLabel is that of the pods of a Revision.
const revisionLabel = "serving.knative.dev/revision"

// StartPods has the fake kubelet run the pods of Knative Services as processes, until the test ends.
func (k *Knative) StartPods(t testing.TB, function func(*v1.Pod) Function) *LivePods {
	t.Helper()
	folder, err := knativeFolder()
	require.NoError(t, err)
	require.NoError(t, podspace.SweepCgroups(podspace.CgroupRoot, cgroupPrefix))
	p := &LivePods{k: k, queue: filepath.Join(folder, "queue"), function: function, logs: scratch(t), pods: map[types.UID]*podProcess{}, turn: map[string]int{}}
	p.transport = &http.Transport{DialContext: p.dial, MaxIdleConnsPerHost: 1 << 10, DisableCompression: true}
	p.proxy = &httputil.ReverseProxy{
		Rewrite:   func(*httputil.ProxyRequest) {}, // the URL has the pod's address
		Transport: p.transport,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
	p.discovery = httptest.NewServer(http.HandlerFunc(p.list))
	k.pods.Store(p)
	k.c.Kubelet.Run(p)
	t.Cleanup(func() {
		k.c.Kubelet.Run(nil)
		k.pods.Store(nil)
		p.mu.Lock()
		p.done = true
		p.mu.Unlock()
		p.busy.Wait()
		for _, d := range p.pods {
			assert.NoError(t, d.stop())
		}
		p.discovery.Close()
	})
	every(t, time.Second, p.feed)
	return p
}

// Start implements [Runtime].
func (p *LivePods) Start(pod *v1.Pod, ip string) (string, error) {
	if pod.Labels[revisionLabel] == "" {
		return ip, nil
	}
	d, ok := p.begin(pod)
	if !ok {
		return "", errors.New("the test has ended")
	}
	defer p.busy.Done()
	if d != nil {
		return d.ip, nil
	}
	d = &podProcess{pod: pod, ip: ip, groups: map[string]*podspace.Cgroup{}, usage: map[string]func() (gate.Usage, error){}, cpu: map[string]float64{}}
	d.stop = sync.OnceValue(d.end)
	if err := p.start(d); err != nil {
		return "", fmt.Errorf("pod %s: %w", pod.Name, errors.Join(err, d.stop()))
	}
	return ip, nil
}

// begin counts a call of Start or Stop, and returns the pod if it runs; false = the test has ended.
func (p *LivePods) begin(pod *v1.Pod) (*podProcess, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return nil, false
	}
	p.busy.Add(1)
	return p.pods[pod.UID], true
}

func (p *LivePods) start(d *podProcess) (err error) {
	if d.space, err = podspace.New(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	function, err := json.Marshal(p.function(d.pod))
	if err != nil {
		return err
	}
	for _, c := range d.pod.Spec.Containers {
		program, env := p.queue, environment(&c, d.pod, d.ip)
		if c.Name == userContainer {
			program, env = self, []string{functionVar + "=" + string(function)}
		}
		if err := p.run(d, &c, program, env); err != nil {
			return fmt.Errorf("container %s: %w", c.Name, err)
		}
	}
	// The kubelet's probe: queue-proxy answers when the function is reachable.
	url := fmt.Sprintf("http://127.0.0.1:%d/", podspace.QueuePort)
	if err := d.space.Await(context.Background(), url, http.Header{"K-Network-Probe": {"queue"}}); err != nil {
		return err
	}
	p.mu.Lock()
	p.pods[d.pod.UID], d.ready = d, true
	p.mu.Unlock()
	return nil
}

// run starts a container.
func (p *LivePods) run(d *podProcess, c *v1.Container, program string, env []string) error {
	memory := c.Resources.Limits.Memory().Value()
	memory = cmp.Or(memory, 1<<40)
	name := fmt.Sprintf(cgroupPrefix+"%d-%d", os.Getpid(), p.made.Add(1))
	group, err := podspace.NewCgroup(podspace.CgroupRoot, name, c.Resources.Limits.Cpu().AsApproximateFloat64(), memory)
	if err != nil {
		return err
	}
	d.groups[c.Name], d.usage[c.Name] = group, gate.Cgroup(podspace.CgroupRoot, name)
	log, err := os.OpenFile(filepath.Join(p.logs, d.pod.Name+"-"+c.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd, _, err := d.space.StartIn(group, append(env, "PATH="+os.Getenv("PATH")), log, log, program)
	if cmd != nil {
		d.processes = append(d.processes, cmd)
	}
	return err
}

// environment is that of a container.
func environment(c *v1.Container, pod *v1.Pod, ip string) (list []string) {
	fields := map[string]string{"metadata.name": pod.Name, "status.podIP": ip, "status.hostIP": "127.0.0.1"}
	for _, e := range c.Env {
		value := e.Value
		if e.ValueFrom != nil {
			value = fields[e.ValueFrom.FieldRef.FieldPath]
		}
		list = append(list, e.Name+"="+value)
	}
	return list
}

// Stop implements [Runtime]: the pod gets no more requests, and ends when those in it have been answered.
func (p *LivePods) Stop(pod *v1.Pod) error {
	d, ok := p.begin(pod)
	if !ok {
		return nil
	}
	defer p.busy.Done()
	if d == nil {
		return nil
	}
	p.mu.Lock()
	d.ready = false
	p.mu.Unlock()
	for end := time.Now().Add(grace); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		p.mu.Lock()
		inside := d.inside
		p.mu.Unlock()
		if inside == 0 {
			break
		}
	}
	p.mu.Lock()
	delete(p.pods, pod.UID)
	p.mu.Unlock()
	return errors.Join(d.stop(), p.k.c.writePodMetrics(pod.Namespace, pod.Name, nil))
}

// end ends a pod's processes. The kernel kills them as the space is closed.
func (d *podProcess) end() (err error) {
	if d.space != nil {
		err = d.space.Close()
	}
	for _, cmd := range d.processes {
		_ = cmd.Wait()
	}
	for _, group := range d.groups {
		err = errors.Join(err, group.Remove())
	}
	return err
}

// dial is for addresses of pods.
func (p *LivePods) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ip, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	var space *podspace.Space
	for _, d := range p.pods {
		if d.ip == ip {
			space = d.space
		}
	}
	p.mu.Unlock()
	if space == nil {
		return nil, fmt.Errorf("no pod has the address %s", ip)
	}
	return space.DialContext(ctx, network, "127.0.0.1:"+port)
}

// enter chooses a ready pod of a Revision for a request, in turn; nil = no pod is ready.
func (p *LivePods) enter(namespace, revision string) *podProcess {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ready []*podProcess
	for _, d := range p.pods {
		if d.ready && d.pod.Namespace == namespace && d.pod.Labels[revisionLabel] == revision {
			ready = append(ready, d)
		}
	}
	if len(ready) == 0 {
		return nil
	}
	slices.SortFunc(ready, func(a, b *podProcess) int { return strings.Compare(a.ip, b.ip) })
	p.turn[revision]++
	d := ready[p.turn[revision]%len(ready)]
	d.inside++
	return d
}

func (p *LivePods) leave(d *podProcess) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d.inside--
}

// list serves the pods for Prometheus.
func (p *LivePods) list(w http.ResponseWriter, _ *http.Request) {
	targets := []any{}
	p.mu.Lock()
	for _, d := range p.pods {
		targets = append(targets, map[string]any{
			"targets": []string{fmt.Sprintf("%s:%d", d.ip, podspace.QueuePrometheusPort)},
			"labels":  map[string]string{"namespace": d.pod.Namespace, "pod": d.pod.Name, "container": queueContainer},
		})
	}
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(targets)
}

// feed writes PodMetrics of the pods by their cgroups.
func (p *LivePods) feed() {
	p.mu.Lock()
	var all []*podProcess
	for _, d := range p.pods {
		if d.ready {
			all = append(all, d)
		}
	}
	p.mu.Unlock()
	_ = parallel(all, func(d *podProcess) error {
		if content := d.metrics(); content != nil {
			return p.k.c.writePodMetrics(d.pod.Namespace, d.pod.Name, content)
		}
		return nil
	})
}

// metrics is the content of a PodMetrics; nil = not known yet.
func (d *podProcess) metrics() map[string]any {
	now := time.Now()
	window := now.Sub(d.measured)
	known := !d.measured.IsZero()
	d.measured = now
	var containers []any
	for name, usage := range d.usage {
		u, err := usage()
		if err != nil {
			return nil // it is about to go
		}
		containers = append(containers, containerUsage(name, (u.CPU-d.cpu[name])/window.Seconds(), u.Memory))
		d.cpu[name] = u.CPU
	}
	if !known {
		return nil
	}
	return metricsOf(d.pod, now, window, containers...)
}
