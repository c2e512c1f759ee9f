"""Writers for the engines that people build with. Each is a module of its own, so that only the engine in use has to be installed:

    from sherd import write, write_columns         # plain Python
    from sherd.writers.dask import write_dask
    from sherd.writers.spark import write_spark
    from sherd.writers.ray import write_ray

All route with the C router, build each shard inside the engine's workers with the C builder, and publish once from the driver.
"""
