package sigma

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/sigma-scheduler/sigma/plugins/engine"
)

const (
	unclearFor   = 10 * time.Minute // timeout of the wait for an API server that does not answer
	unclearBinds = 5                // bindings of a pod that still has no node then
	unclearReads = 15               // refused reads, such as those of an API server that is starting: a minute
	readFor      = 10 * time.Second // timeout of one read
)

// Bind binds a pod as upstream's DefaultBinder does. If the response leaves open
// whether the binding was made, Bind returns when that is known: after an error the
// scheduler gives the node's room to others, before its watch may have shown the pod there.
func (p *Plugin) Bind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	status := p.binder.Bind(ctx, state, pod, node)
	if status.IsSuccess() || refuses(status.AsError()) {
		return status
	}
	klog.FromContext(ctx).Info("The answer leaves open whether the pod was bound; reading the pod",
		"pod", klog.KObj(pod), "node", node, "err", status.AsError())
	again := func(ctx context.Context) error { return p.binder.Bind(ctx, state, pod, node).AsError() }
	outcome, err := p.settle(ctx, pod, node, status.AsError(), again)
	p.engine.BindingUnclear(outcome)
	if err != nil {
		return fwk.AsStatus(err)
	}
	return nil
}

// settle determines whether a pod was bound after a response that leaves it open. A pod
// without a node is bound again: the first request may still be on its way, and of two
// for the same node and UID it does not matter which one arrives.
func (p *Plugin) settle(ctx context.Context, pod *v1.Pod, node string, unclear error, again func(context.Context) error) (engine.BindingOutcome, error) {
	ctx, cancel := context.WithTimeout(ctx, unclearFor)
	defer cancel()
	pause := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: .2, Steps: 10, Cap: 5 * time.Second}
	for binds, refused := 1, 0; ; {
		live, err := p.read(ctx, pod)
		switch {
		case apierrors.IsNotFound(err), err == nil && live.UID != pod.UID:
			return engine.NotBound, fmt.Errorf("the pod is gone; its binding: %w", unclear)
		case err == nil && live.Spec.NodeName == node:
			return engine.WasBound, nil
		case err == nil && live.Spec.NodeName != "":
			return engine.NotBound, fmt.Errorf("the pod is on node %s; its binding: %w", live.Spec.NodeName, unclear)
		case err == nil && (live.DeletionTimestamp != nil || binds == unclearBinds):
			return engine.NotBound, fmt.Errorf("the pod has no node after %d bindings; the last: %w", binds, unclear)
		case err == nil:
			if unclear = again(ctx); unclear == nil {
				return engine.WasBound, nil
			}
			binds++
		case refuses(err):
			if refused++; refused == unclearReads {
				return engine.BindingUnknown, fmt.Errorf("the pod cannot be read, which needs the right to get pods: %w; its binding: %w", err, unclear)
			}
		}
		select {
		case <-ctx.Done():
			return engine.BindingUnknown, fmt.Errorf("the API server does not say whether the pod was bound: %w; its binding: %w", ctx.Err(), unclear)
		case <-time.After(pause.Step()):
		}
	}
}

// read reads a pod from the API server; the informers' copy may be older than the binding.
func (p *Plugin) read(ctx context.Context, pod *v1.Pod) (*v1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, readFor)
	defer cancel()
	return p.handle.ClientSet().CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
}

// refuses reports whether an error is a response of the API server that it did nothing. A
// conflict is not: the pod may have this node by an earlier request, and a late response of
// the store is a conflict too.
func refuses(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return false
	}
	switch code := answer.Status().Code; code {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	default:
		return code >= 400 && code < 500
	}
}
