// Package controlplane runs a throw-away Kubernetes control plane on loopback:
// etcd, kube-apiserver and kube-controller-manager as child processes, with
// certificates and tokens of their own, everything in one folder. There is no
// kubelet and no scheduler: pods stay Pending until a test's scheduler binds them.
//
// lab/controlplane/run.sh is the same for shells. Linux only: the children's
// lives are tied to ours by a signal that only this kernel sends.
package controlplane

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Options are the settings of a control plane.
type Options struct {
	// Programs is the folder that build.sh prints.
	Programs string
	// Dir is an existing folder that takes data, keys, logs and process ids. It
	// must be private (0700): its reader is the cluster's administrator.
	Dir string
	// APIServer and ControllerManager are further flags; of a flag with one value
	// the last one counts.
	APIServer, ControllerManager []string
	// Log takes a line for each program that was restarted. Nil: they are dropped.
	Log io.Writer
}

// ControlPlane is a running control plane. Dir holds, in addition to the programs'
// own files:
//
//	kubeconfig                     group system:masters
//	scheduler.kubeconfig           user system:kube-scheduler, and no more rights than that
//	controller-manager.kubeconfig  user system:kube-controller-manager
//	ca.crt                         certificate that verifies the API server's
//	etcd.pid, kube-apiserver.pid, kube-controller-manager.pid
//	etcd.log, ...
//
// A program that dies is started again, as a node's kubelet would: kill -9 the
// process of a .pid file to test a restart, -STOP and -CONT it to test an outage.
type ControlPlane struct {
	Dir string
	URL string // of the API server

	options   Options
	processes []*process // in order of start
	failed    chan error
	stop      sync.Once
}

// Kubeconfig is the path of the administrator's kubeconfig.
func (c *ControlPlane) Kubeconfig() string { return filepath.Join(c.Dir, "kubeconfig") }

// SchedulerKubeconfig is the path of the scheduler's kubeconfig.
func (c *ControlPlane) SchedulerKubeconfig() string {
	return filepath.Join(c.Dir, "scheduler.kubeconfig")
}

// Failed reports, at most once, that a program died too often to be restarted.
func (c *ControlPlane) Failed() <-chan error { return c.failed }

// errPort is the error if another process took the port between our choice and the
// bind.
var errPort = errors.New("address already in use")

// Start returns once the API server is ready and the controllers run, or when
// ctx ends; then nothing runs. Files of a failed start stay in Dir.
func Start(ctx context.Context, options Options) (*ControlPlane, error) {
	for range 5 {
		c, err := start(ctx, options)
		if errors.Is(err, errPort) {
			continue
		}
		return c, err
	}
	return nil, errPort
}

func start(ctx context.Context, options Options) (_ *ControlPlane, err error) {
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	c := &ControlPlane{
		Dir:     dir,
		URL:     fmt.Sprintf("https://127.0.0.1:%d", port),
		options: options,
		failed:  make(chan error, 1),
	}
	defer func() {
		if err != nil {
			c.Stop()
		}
	}()
	file := func(name string) string { return filepath.Join(dir, name) }

	authority, err := writeKeys(dir)
	if err != nil {
		return nil, err
	}
	token, err := writeAccess(dir, c.URL, authority)
	if err != nil {
		return nil, err
	}

	// A socket in a private folder needs neither a port nor a password.
	socket := file("etcd.sock")
	if len(socket) > 100 {
		return nil, fmt.Errorf("%s: too long for the path of a socket", socket)
	}
	etcd := c.run("etcd",
		"--data-dir="+file("etcd"),
		"--listen-client-urls=unix://"+socket,
		// Unused; etcd refuses to advertise a socket.
		"--advertise-client-urls=http://127.0.0.111:0",
		"--listen-peer-urls=http://127.0.0.1:0",
		"--quota-backend-bytes=8589934592",
		"--unsafe-no-fsync", // survives the death of the process, not of the machine
		"--log-level=warn",
	)
	local := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	if err := c.await(ctx, etcd, local, "http://etcd/readyz", ""); err != nil {
		return nil, err
	}

	apiserver := c.run("kube-apiserver", append([]string{
		"--etcd-servers=unix://" + socket,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--endpoint-reconciler-type=none", // it refuses loopback addresses
		"--cert-dir=" + dir,
		"--tls-cert-file=" + file("apiserver.crt"),
		"--tls-private-key-file=" + file("apiserver.key"),
		"--client-ca-file=" + file("ca.crt"),
		"--token-auth-file=" + file("tokens.csv"),
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + file("service-account.key"),
		"--service-account-signing-key-file=" + file("service-account.key"),
		"--service-cluster-ip-range=10.0.0.0/16",
		"--allow-privileged=true",
		// ServiceAccount refuses pods until a controller has made the namespace's
		// account; TaintNodesByCondition taints nodes until their lifecycle
		// controller, which must not run without kubelets, sees them ready.
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
		"--max-requests-inflight=2000",
		"--max-mutating-requests-inflight=1000",
	}, options.APIServer...)...)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	remote := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}}
	if err := c.await(ctx, apiserver, remote, c.URL+"/readyz", token); err != nil {
		return nil, err
	}

	controllers := c.run("kube-controller-manager", append([]string{
		"--kubeconfig=" + file("controller-manager.kubeconfig"),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + file("service-account.key"),
		"--root-ca-file=" + file("ca.crt"),
		"--leader-elect=false",
		"--secure-port=0",
		// All but those that need kubelets; without a cloud, no controller of a
		// cloud starts.
		"--controllers=*,-node-lifecycle-controller,-node-ipam-controller",
		// Upstream's 20 a second would take minutes to make thousands of pods.
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
	}, options.ControllerManager...)...)
	// The first thing that only a running controller makes.
	account := c.URL + "/api/v1/namespaces/default/serviceaccounts/default"
	if err := c.await(ctx, controllers, remote, account, token); err != nil {
		return nil, err
	}

	for _, p := range c.processes {
		p.keepAlive()
	}
	return c, nil
}

// Stop ends the programs, those first that need the others, and returns when they
// have ended. It may be called more than once.
func (c *ControlPlane) Stop() {
	c.stop.Do(func() {
		for _, p := range slices.Backward(c.processes) {
			p.end()
		}
	})
}

func (c *ControlPlane) run(name string, flags ...string) *process {
	p := newProcess(c.options.Programs, c.Dir, name, flags)
	p.log = c.options.Log
	p.failed = func(err error) {
		select {
		case c.failed <- err:
		default:
		}
	}
	c.processes = append(c.processes, p)
	go p.supervise()
	return p
}

// await polls until the URL answers 200, the process ends, or ctx does.
func (c *ControlPlane) await(ctx context.Context, p *process, transport *http.Transport, url, token string) error {
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		var last string
		response, err := client.Do(request)
		if err != nil {
			last = err.Error()
		} else {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
			last = response.Status
		}
		select {
		case <-tick.C:
		case err := <-c.failed:
			if bytes.Contains(p.tail(), []byte("bind: address already in use")) {
				return errPort
			}
			return err
		case <-ctx.Done():
			return fmt.Errorf("%s was not ready (%s): %w\n%s", p.name, last, context.Cause(ctx), p.tail())
		}
	}
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

// tailOf returns the end of a file, whole lines, at most 2 KB.
func tailOf(name string) []byte {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	const most = 2048
	if len(content) > most {
		content = content[len(content)-most:]
		_, content, _ = bytes.Cut(content, []byte("\n"))
	}
	return bytes.TrimSpace(content)
}
