"""Sumcast as a backend of torch.distributed.

    import torch.distributed as dist
    dist.init_process_group("sumcast")

Importing this package registers the backend; having it installed is enough, since torch finds it by
its entry point. The extension itself is loaded by the first process group or table.

    table = sumcast.EmbeddingBag(16)                  # rows by any key, shared by all ranks
"""

__all__ = ["EmbeddingBag", "pipeline", "read_table", "register", "torch"]


def __getattr__(name):
    # Not imported before somebody asks: torch imports this package whenever it is imported itself.
    if name in ("pipeline", "torch"):
        import importlib

        return importlib.import_module(f"sumcast.{name}")
    if name in ("EmbeddingBag", "read_table"):
        from sumcast import embedding

        return getattr(embedding, name)
    raise AttributeError(f"module 'sumcast' has no attribute {name!r}")

# Devices with streams and events, whose tensors are staged through host memory. The last is what
# plug-ins of other makers rename.
ACCELERATORS = ["cuda", "xpu", "privateuseone"]


def _create(options, backend_options):
    from sumcast import _meeting

    return _meeting.create_backend(options, backend_options)


def register():
    """Makes the name "sumcast" known to torch.distributed. Any number of times."""
    import torch.distributed as dist

    if dist.is_available() and "SUMCAST" not in dist.Backend._plugins:
        # The default backend of no device; what "sumcast" without a device stands for comes after.
        dist.Backend.register_backend("sumcast", _create, extended_api=True, devices=["cpu"])
        dist.Backend.backend_capability["sumcast"] = ["cpu", *ACCELERATORS]


# Last: importing torch calls register() by the entry point, in the middle of this.
register()
