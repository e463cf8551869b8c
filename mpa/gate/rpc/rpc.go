// Package rpc lets calls of gRPC through a gate.
package rpc

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sigma-scheduler/sigma/mpa/gate"
)

// Unary is an interceptor of a server's calls. One that is refused is answered Unavailable,
// which clients may retry. Of the handler's errors those are failures that concern the
// server: Unknown, DeadlineExceeded, ResourceExhausted, Internal, Unavailable and DataLoss.
func Unary(g *gate.Gate) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (answer any, err error) {
		err = through(ctx, g, func() error {
			answer, err = next(ctx, request)
			return err
		})
		return answer, err
	}
}

// Stream is the same for streams, which are inside until they end.
func Stream(g *gate.Gate) grpc.StreamServerInterceptor {
	return func(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		return through(stream.Context(), g, func() error { return next(server, stream) })
	}
}

func through(ctx context.Context, g *gate.Gate, call func() error) error {
	leave, err := g.Enter(ctx)
	switch {
	case errors.Is(err, gate.ErrFull), errors.Is(err, gate.ErrLate):
		return status.Error(codes.Unavailable, err.Error())
	case err != nil:
		return status.FromContextError(err).Err()
	}
	outcome := gate.Failed // of a panic
	defer func() { leave(outcome) }()
	err = call()
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		outcome = gate.Gone
	case !ofServer(status.Code(err)):
		outcome = gate.Answered
	}
	return err
}

func ofServer(c codes.Code) bool {
	return slices.Contains([]codes.Code{
		codes.Unknown, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Internal, codes.Unavailable, codes.DataLoss,
	}, c)
}
