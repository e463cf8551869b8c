// Package operate has the operations of people on Sigma in a cluster: they promote a PlacementPolicy
// from shadow to live and demote it, read its history, and check the cluster's prerequisites.
package operate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// A Cluster is the target cluster of the commands.
type Cluster struct {
	Client    dynamic.Interface
	Namespace string        // of the scheduler, and of the history
	Timeout   time.Duration // of one answer

	config *rest.Config
}

// New prepares a cluster. It does not contact it yet.
func New(config *rest.Config, namespace string, timeout time.Duration) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.Timeout = timeout
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Cluster{Client: client, Namespace: namespace, Timeout: timeout, config: config}, nil
}

// A Refusal is why a command does nothing, and the next command.
type Refusal struct {
	Reason, Next string
	err          error
}

func (r *Refusal) Error() string { return r.Reason + "\nnext: " + r.Next }
func (r *Refusal) Unwrap() error { return r.err }

func refuse(next, format string, args ...any) error {
	return &Refusal{Reason: fmt.Sprintf(format, args...), Next: next}
}

// explain names the right that is missing for an answer, or another reason for the error, with the
// next command.
func (c *Cluster) explain(verb, resource, where string, err error) error {
	var at *url.Error
	var network net.Error
	because := func(next, format string, args ...any) error {
		return &Refusal{Reason: fmt.Sprintf("%s %s: ", verb, resource) + fmt.Sprintf(format, args...), Next: next, err: err}
	}
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		return err
	case apierrors.IsForbidden(err):
		flag := ""
		if where != "" {
			flag = " -n " + where
		}
		return because("kubectl auth can-i "+verb+" "+resource+flag, "forbidden: the account needs the verb %s on %s (%v)", verb, resource, err)
	case apierrors.IsUnauthorized(err):
		return because("kubectl auth whoami", "the API server %s does not accept the credentials (%v)", c.config.Host, err)
	case errors.As(err, &at), errors.As(err, &network):
		return because("kubectl cluster-info", "the API server %s cannot be reached: %v", c.config.Host, err)
	}
	return fmt.Errorf("%s %s: %w", verb, resource, err)
}
