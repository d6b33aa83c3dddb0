"""How PyTorch keeps the replicas of its ranks together, by name: replicate(torch, network, way). Run by each rank of a group."""

WAYS = ["DDP, fp32", "DDP, bf16", "DDP, PowerSGD", "LocalSGD, every 8"]
PERIOD = 8


def replicate(torch, network, way):
    """The module to compute outputs with, and a function that is to be called after each step of the optimizer."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    # PowerSGD's buckets wait for each other in threads of gloo's, in an order that differs between ranks: it takes one bucket.
    buckets = {"bucket_cap_mb": 1000} if way == "DDP, PowerSGD" else {}
    replica = torch.nn.parallel.DistributedDataParallel(network, **buckets)  # which gives all ranks the weights of the first
    if way == "LocalSGD, every 8":
        averager = PeriodicModelAverager(period=PERIOD, warmup_steps=0)
        return network, lambda: averager.average_parameters(network.parameters())
    if way == "DDP, bf16":
        replica.register_comm_hook(None, default_hooks.bf16_compress_hook)
    if way == "DDP, PowerSGD":
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
        replica.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return replica, lambda: None


def environment(rank, ranks, address):
    """What tells a process which rank of the group it is."""
    return {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": address, "MASTER_PORT": "29500",
            "OMP_NUM_THREADS": "1"}
